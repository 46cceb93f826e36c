"""Which chunk of an mp4 holds which packet ("sample"): a table with one row for neighbours that hold equally many.

Where sound and picture lie finely mixed nearly every chunk has a row of its own, a million in 12 hours. So the table
stays in the file; only a mark every few thousand rows is kept, and what lies between two marks is read when needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.mp4.boxes import Box, Unusual

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

ROWS_BETWEEN_MARKS = 4_096

_LONGEST_CHUNK = 1 << 16  # in samples; windows are made of whole chunks
_MOST_ROWS = 1 << 26


@dataclass(frozen=True)
class _TablePart:
    """Some rows: the first chunk of each, how many samples a chunk holds, its first sample; and the last one's end."""

    first: Integers
    per_chunk: Integers
    start: Integers
    end: int

    @property
    def end_sample(self) -> int:
        return int(self.start[-1] + (self.end - self.first[-1]) * self.per_chunk[-1])


@dataclass(frozen=True)
class ChunkTable:
    stsc: Box
    chunks: int
    rows: int
    longest: int  # in samples
    mark_chunks: Integers
    mark_samples: Integers

    @classmethod
    def of(cls, stsc: Box, chunks: int, samples: int) -> ChunkTable:
        (rows,) = struct.unpack(">I", stsc.read(4, 4))
        if not 1 <= rows <= min(_MOST_ROWS, chunks) or stsc.end - stsc.start < 8 + 12 * rows:
            raise Unusual
        mark_chunks, mark_samples, sample, longest = [], [], 0, 0
        for first_row in range(0, rows, ROWS_BETWEEN_MARKS):
            part = _read_part(stsc, first_row, min(first_row + ROWS_BETWEEN_MARKS, rows), rows, chunks, sample)
            mark_chunks.append(int(part.first[0]))
            mark_samples.append(sample)
            sample = part.end_sample
            longest = max(longest, int(part.per_chunk.max()))
        if mark_chunks[0] != 0 or sample != samples:
            raise Unusual
        return cls(stsc, chunks, rows, longest, np.array(mark_chunks, np.int64), np.array(mark_samples, np.int64))

    def chunk_of(self, sample: int) -> int:
        mark = int(np.searchsorted(self.mark_samples, sample, side="right")) - 1
        part = self._between(mark, mark + 1)
        row = int(np.searchsorted(part.start, sample, side="right")) - 1
        return int(part.first[row] + (sample - part.start[row]) // part.per_chunk[row])

    def first_sample_of(self, chunk: int) -> int:
        mark = self._mark_before(chunk)
        part = self._between(mark, mark + 1)
        row = int(np.searchsorted(part.first, chunk, side="right")) - 1
        return int(part.start[row] + (chunk - part.first[row]) * part.per_chunk[row])

    def cut(self, first_chunk: int, last_chunk: int) -> tuple[Integers, Integers]:
        """The rows of chunks `[first_chunk, last_chunk)`, counted from there: where each starts, and its value."""
        part = self._between(self._mark_before(first_chunk), self._mark_before(last_chunk - 1) + 1)
        first_row = int(np.searchsorted(part.first, first_chunk, side="right")) - 1
        rows = slice(first_row, int(np.searchsorted(part.first, last_chunk)))
        return np.maximum(part.first[rows] - first_chunk, 0), part.per_chunk[rows]

    def _mark_before(self, chunk: int) -> int:
        return int(np.searchsorted(self.mark_chunks, chunk, side="right")) - 1

    def _between(self, mark: int, end_mark: int) -> _TablePart:
        first, last = mark * ROWS_BETWEEN_MARKS, min(end_mark * ROWS_BETWEEN_MARKS, self.rows)
        return _read_part(self.stsc, first, last, self.rows, self.chunks, int(self.mark_samples[mark]))


def _read_part(stsc: Box, first_row: int, last_row: int, rows: int, chunks: int, sample: int) -> _TablePart:
    """Rows of the table, checked; a row ends where the next one starts, the last with the last chunk."""
    rows_read = min(last_row + 1, rows) - first_row
    first, per_chunk, description = stsc.numbers(8 + 12 * first_row, 3 * rows_read, ">u4").astype(np.int64).reshape(
        rows_read, 3
    ).T - [[1], [0], [0]]
    ends = first[1:] if last_row < rows else np.append(first[1:], chunks)
    count = last_row - first_row
    lengths = ends - first[:count]
    if lengths.min() < 1 or (description != 1).any() or per_chunk.min() < 1 or per_chunk.max() > _LONGEST_CHUNK:
        raise Unusual
    in_rows = lengths * per_chunk[:count]
    start = sample + np.cumsum(in_rows) - in_rows
    return _TablePart(first[:count], per_chunk[:count], start, int(ends[-1]))
