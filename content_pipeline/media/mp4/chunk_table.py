"""Which chunk of an mp4 holds which packet ("sample"): a table of runs of chunks that hold equally many.

Where sound and picture lie finely mixed nearly every chunk is a run of its own, a million in 12 hours. So the table
stays in the file; only a mark every few thousand runs is kept, and what lies between two marks is read when needed.
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

RUNS_BETWEEN_MARKS = 4_096

_LONGEST_CHUNK = 1 << 16  # in samples; windows are made of whole chunks
_MOST_RUNS = 1 << 26


@dataclass(frozen=True)
class _Stretch:
    """Some runs: the first chunk of each, how many samples a chunk holds, its first sample; and the last one's end."""

    first: Integers
    per_chunk: Integers
    start: Integers
    end: int

    @property
    def end_sample(self) -> int:
        return int(self.start[-1] + (self.end - self.first[-1]) * self.per_chunk[-1])


@dataclass(frozen=True)
class ChunkRuns:
    stsc: Box
    chunks: int
    runs: int
    longest: int  # in samples
    mark_chunks: Integers
    mark_samples: Integers

    @classmethod
    def of(cls, stsc: Box, chunks: int, samples: int) -> ChunkRuns:
        (runs,) = struct.unpack(">I", stsc.read(4, 4))
        if not 1 <= runs <= min(_MOST_RUNS, chunks) or stsc.end - stsc.start < 8 + 12 * runs:
            raise Unusual
        mark_chunks, mark_samples, sample, longest = [], [], 0, 0
        for row in range(0, runs, RUNS_BETWEEN_MARKS):
            stretch = _stretch(stsc, row, min(row + RUNS_BETWEEN_MARKS, runs), runs, chunks, sample)
            mark_chunks.append(int(stretch.first[0]))
            mark_samples.append(sample)
            sample = stretch.end_sample
            longest = max(longest, int(stretch.per_chunk.max()))
        if mark_chunks[0] != 0 or sample != samples:
            raise Unusual
        return cls(stsc, chunks, runs, longest, np.array(mark_chunks, np.int64), np.array(mark_samples, np.int64))

    def chunk_of(self, sample: int) -> int:
        mark = int(np.searchsorted(self.mark_samples, sample, side="right")) - 1
        stretch = self._between(mark, mark + 1)
        run = int(np.searchsorted(stretch.start, sample, side="right")) - 1
        return int(stretch.first[run] + (sample - stretch.start[run]) // stretch.per_chunk[run])

    def first_sample_of(self, chunk: int) -> int:
        mark = self._mark_before(chunk)
        stretch = self._between(mark, mark + 1)
        run = int(np.searchsorted(stretch.first, chunk, side="right")) - 1
        return int(stretch.start[run] + (chunk - stretch.first[run]) * stretch.per_chunk[run])

    def cut(self, first_chunk: int, last_chunk: int) -> tuple[Integers, Integers]:
        """The runs of chunks `[first_chunk, last_chunk)`, counted from there: where each starts, and its value."""
        stretch = self._between(self._mark_before(first_chunk), self._mark_before(last_chunk - 1) + 1)
        first_run = int(np.searchsorted(stretch.first, first_chunk, side="right")) - 1
        runs = slice(first_run, int(np.searchsorted(stretch.first, last_chunk)))
        return np.maximum(stretch.first[runs] - first_chunk, 0), stretch.per_chunk[runs]

    def _mark_before(self, chunk: int) -> int:
        return int(np.searchsorted(self.mark_chunks, chunk, side="right")) - 1

    def _between(self, mark: int, end_mark: int) -> _Stretch:
        first, last = mark * RUNS_BETWEEN_MARKS, min(end_mark * RUNS_BETWEEN_MARKS, self.runs)
        return _stretch(self.stsc, first, last, self.runs, self.chunks, int(self.mark_samples[mark]))


def _stretch(stsc: Box, first_row: int, last_row: int, runs: int, chunks: int, sample: int) -> _Stretch:
    """Runs of the table, checked; a run ends where the next one starts, the last with the last chunk."""
    rows = min(last_row + 1, runs) - first_row
    first, per_chunk, description = stsc.numbers(8 + 12 * first_row, 3 * rows, ">u4").astype(np.int64).reshape(
        rows, 3
    ).T - [[1], [0], [0]]
    ends = first[1:] if last_row < runs else np.append(first[1:], chunks)
    count = last_row - first_row
    lengths = ends - first[:count]
    if lengths.min() < 1 or (description != 1).any() or per_chunk.min() < 1 or per_chunk.max() > _LONGEST_CHUNK:
        raise Unusual
    in_runs = lengths * per_chunk[:count]
    start = sample + np.cumsum(in_runs) - in_runs
    return _Stretch(first[:count], per_chunk[:count], start, int(ends[-1]))
