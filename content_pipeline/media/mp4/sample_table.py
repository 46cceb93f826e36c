"""Which bytes of an mp4 hold which moment of a track, and the same table cut to a few chunks of it.

A table lists every packet: 12 hours have three million, a quarter of a gigabyte once libavformat has spread them out.
Here only the durations are held, with one row for equal neighbours; sizes and positions are read for a window at a
time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.mp4.boxes import Box, Unusual, packed
from content_pipeline.media.mp4.chunk_table import ChunkTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_MOST_ROWS = 1 << 18
_MOST_SAMPLES = 1 << 28
_AT_ONCE = 1 << 17  # sizes or positions
_LONGEST_SAMPLE = 1 << 30  # in ticks; beyond it libavformat has its own ideas
_LARGEST_SAMPLE = 1 << 20  # in bytes; no packet of AAC comes near
_MOST_CHUNKS_AT_THE_END = 1_000  # of the file; each is looked up by itself


@dataclass(frozen=True)
class RepeatedValues:
    """Equal values as one row: from sample (or chunk) number `first[i]` on, `value[i]` each."""

    first: Integers
    value: Integers

    def at(self, number: int) -> int:
        """Which row a number lies in."""
        return int(np.searchsorted(self.first, number, side="right")) - 1


@dataclass(frozen=True)
class SampleTable:
    """The table of one track; "sample" is the format's word for a packet."""

    stbl: Box
    samples: int
    chunks: int
    durations: RepeatedValues
    start_ticks: Integers  # of each row of durations
    chunk_table: ChunkTable

    @classmethod
    def of(cls, stbl: Box) -> SampleTable:
        sizes, positions = stbl.child(b"stsz"), _positions(stbl)
        fixed_bytes, samples = struct.unpack(">II", sizes.read(4, 8))
        (chunks,) = struct.unpack(">I", positions.read(4, 4))
        if fixed_bytes or not 0 < chunks <= samples <= _MOST_SAMPLES or stbl.find(b"ctts") is not None:
            raise Unusual
        if sizes.end - sizes.start < 12 + 4 * samples:
            raise Unusual
        durations, start_ticks = _durations(stbl.child(b"stts"), samples)
        chunk_table = ChunkTable.of(stbl.child(b"stsc"), chunks, samples)
        table = cls(stbl, samples, chunks, durations, start_ticks, chunk_table)
        table._check_places(table._largest_bytes())
        return table

    def ticks_at(self, sample: int) -> int:
        """When a sample starts, in ticks of the track from the start of the media."""
        row = self.durations.at(sample)
        within = (sample - int(self.durations.first[row])) * int(self.durations.value[row])
        return int(self.start_ticks[row]) + within

    def sample_at(self, ticks: int) -> int:
        """The sample that sounds at a time."""
        row = max(0, int(np.searchsorted(self.start_ticks, ticks, side="right")) - 1)
        within = (ticks - int(self.start_ticks[row])) // int(self.durations.value[row])
        return min(max(0, int(self.durations.first[row]) + within), self.samples - 1)

    def durations_before(self, sample: int) -> Iterator[tuple[int, int]]:
        """How many samples of which duration come before a sample."""
        counts, ticks = _clipped(self.durations, 0, sample)
        yield from zip(counts.tolist(), ticks.tolist(), strict=True)

    def samples_of(self, first_chunk: int, last_chunk: int) -> tuple[int, int]:
        """The samples that chunks `[first_chunk, last_chunk)` hold, from the first to past the last."""
        start = self.chunk_table.first_sample_of(first_chunk)
        return start, self.samples if last_chunk >= self.chunks else self.chunk_table.first_sample_of(last_chunk)

    def cut(self, first_chunk: int, last_chunk: int, shift_bytes: int) -> bytes:
        """The table of chunks `[first_chunk, last_chunk)` alone, whose bytes have moved by `shift_bytes`."""
        start, stop = self.samples_of(first_chunk, last_chunk)
        row_starts, per_chunk = self.chunk_table.cut(first_chunk, last_chunk)
        moved = self._positions(first_chunk, last_chunk) + np.uint64(shift_bytes)
        sizes = self.stbl.child(b"stsz").read(12 + 4 * start, 4 * (stop - start))
        return packed(
            b"stbl",
            packed(b"stsd", self.stbl.child(b"stsd").read()),
            _table(b"stts", *_clipped(self.durations, start, stop)),
            _table(b"stsc", 1 + row_starts, per_chunk, np.ones_like(per_chunk)),
            packed(b"stsz", struct.pack(">III", 0, 0, stop - start), sizes),
            packed(b"co64", struct.pack(">II", 0, last_chunk - first_chunk), moved.astype(">u8").tobytes()),
        )

    def _largest_bytes(self) -> int:
        """The size of the largest sample: at an absurd one libavformat ends the track, and windows would go on."""
        table = self.stbl.child(b"stsz")
        largest = max(
            int(table.numbers(12 + 4 * first, min(_AT_ONCE, self.samples - first), ">u4").max())
            for first in range(0, self.samples, _AT_ONCE)
        )
        if largest > _LARGEST_SAMPLE:
            raise Unusual
        return largest

    def _check_places(self, largest_bytes: int) -> None:
        """Of a file that was cut short, libavformat has to say how much can still be read.

        Only the chunks near the end of the file can reach beyond it, so only those are added up.
        """
        file_bytes = self.stbl.source.signature.size_bytes
        safe_bytes = max(0, file_bytes - largest_bytes * self.chunk_table.longest)
        at_the_end = 0
        for first_chunk in range(0, self.chunks, _AT_ONCE):
            positions = self._positions(first_chunk, min(first_chunk + _AT_ONCE, self.chunks))
            near = np.flatnonzero(positions >= np.uint64(safe_bytes))
            at_the_end += len(near)
            if at_the_end > _MOST_CHUNKS_AT_THE_END:
                raise Unusual
            for chunk in near.tolist():
                if int(positions[chunk]) + max(1, self._chunk_bytes(first_chunk + chunk)) > file_bytes:
                    raise Unusual

    def _chunk_bytes(self, chunk: int) -> int:
        start, stop = self.samples_of(chunk, chunk + 1)
        return int(self.stbl.child(b"stsz").numbers(12 + 4 * start, stop - start, ">u4").sum(dtype=np.int64))

    def _positions(self, first_chunk: int, last_chunk: int) -> NDArray[np.uint64]:
        table = _positions(self.stbl)
        dtype = ">u8" if table.kind == b"co64" else ">u4"
        first_byte = 8 + np.dtype(dtype).itemsize * first_chunk
        positions: NDArray[np.uint64] = table.numbers(first_byte, last_chunk - first_chunk, dtype).astype(np.uint64)
        return positions


def _positions(stbl: Box) -> Box:
    return stbl.find(b"co64") or stbl.child(b"stco")


def _durations(stts: Box, samples: int) -> tuple[RepeatedValues, Integers]:
    (rows,) = struct.unpack(">I", stts.read(4, 4))
    if not 1 <= rows <= _MOST_ROWS:
        raise Unusual
    counts, ticks = stts.numbers(8, 2 * rows, ">u4").astype(np.int64).reshape(rows, 2).T
    if counts.min() < 1 or ticks.min() < 1 or ticks.max() > _LONGEST_SAMPLE or counts.sum() != samples:
        raise Unusual
    return RepeatedValues(np.cumsum(counts) - counts, ticks), np.cumsum(counts * ticks) - counts * ticks


def _clipped(repeated: RepeatedValues, start: int, stop: int) -> tuple[Integers, Integers]:
    """How many of `[start, stop)` each row covers, and its value; rows that cover none are left out."""
    counts = np.minimum(np.append(repeated.first[1:], stop), stop) - np.maximum(repeated.first, start)
    return counts[counts > 0], repeated.value[counts > 0]


def _table(kind: bytes, *columns: Integers) -> bytes:
    rows = np.stack(columns, axis=1).astype(">u4")
    return packed(kind, struct.pack(">II", 0, len(rows)), rows.tobytes())
