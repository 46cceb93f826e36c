"""The first moments of a long mp4 or mov, for whoever only wants to know what it is.

Opening a recording of 12 hours costs libavformat a third of a second and a quarter of a gigabyte, for a list of all
packets. Everything it says of itself stands elsewhere: durations and rates in the headers and in the table of
durations, formats in the descriptions. So the lists are cut to the first packets of each track, and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from content_pipeline.media.mp4.boxes import Box, Unusual, packed, whole_file
from content_pipeline.media.source import Source

LONG_BYTES = 1 << 22  # of headers: what is shorter is opened as it is

_CHUNKS_KEPT = 512
_MOST_HEAD_BYTES = 1 << 24
_MOST_BOXES = 4_000
_NESTED = (b"moov", b"trak", b"mdia", b"minf", b"stbl")  # each in the one before, and nowhere else
_PADDING = {b"free", b"skip", b"wide"}
_PER_SAMPLE = {b"sdtp", b"sbgp", b"subs", b"padb", b"stdp", b"stsh"}  # say nothing of the track as a whole


def opening_head(source: Source) -> bytes:
    """What to put before the recording's bytes; nothing where it is short or not of the plain kind."""
    try:
        file = whole_file(source)
        movie = file.find(b"moov")
        if movie is None or movie.end - movie.start < LONG_BYTES:
            return b""
        if movie.find(b"mvex") is not None or file.find(b"moof") is not None:
            return b""
        _check_layout(movie)
        return _head(file, movie, len(_head(file, movie, 0)))
    except Unusual:
        return b""


def _head(file: Box, movie: Box, shift_bytes: int) -> bytes:
    brand = file.children()[0]
    start = packed(brand.kind, brand.read()) if brand.kind == b"ftyp" else b""
    return start + _rebuilt(movie, shift_bytes) + struct.pack(">I4sQ", 1, b"mdat", 16 + file.end)


def _check_layout(movie: Box) -> None:
    """The boxes that are looked into lie as they should, and are not too many."""
    level, count = [movie], 0
    for kind in (*_NESTED[1:], None):
        inner: list[Box] = []
        for box in level:
            children = box.children()
            count += len(children)
            if count > _MOST_BOXES or any(child.kind in _NESTED and child.kind != kind for child in children):
                raise Unusual
            inner += [child for child in children if child.kind == kind]
        level = inner


def _rebuilt(box: Box, shift_bytes: int) -> bytes:
    if box.kind == b"stbl":
        return _packed_modestly(box.kind, _tables(box, shift_bytes))
    if box.kind in _NESTED:
        children = (child for child in box.children() if child.kind not in _PADDING)
        return _packed_modestly(box.kind, (_rebuilt(child, shift_bytes) for child in children))
    return packed(box.kind, box.read())


def _packed_modestly(kind: bytes, contents: Iterator[bytes]) -> bytes:
    """A box around contents, as long as these stay small: a sparse file may claim gigabytes of them."""
    kept, size_bytes = [], 0
    for content in contents:
        kept.append(content)
        size_bytes += len(content)
        if size_bytes > _MOST_HEAD_BYTES:
            raise Unusual
    return packed(kind, *kept)


def _tables(stbl: Box, shift_bytes: int) -> Iterator[bytes]:
    chunks, samples, chunk_rows = _kept(stbl)
    for box in stbl.children():
        if box.kind in (b"stco", b"co64"):
            yield _positions(box, chunks, shift_bytes)
        elif box.kind == b"stts":
            yield _first_rows(box, 8, _rows(box, 8))
        elif box.kind == b"stsc":
            yield _first_rows(box, 12, chunk_rows)
        elif box.kind == b"stsz":
            yield _sizes(box, samples)
        elif box.kind in (b"ctts", b"stss", b"stps"):
            yield _first_rows(box, 8 if box.kind == b"ctts" else 4, samples)
        elif box.kind not in _PER_SAMPLE | _PADDING:
            yield packed(box.kind, box.read())


def _kept(stbl: Box) -> tuple[int, int, int]:
    """How many chunks stay, how many samples these hold, and how many rows of the chunk table that are."""
    positions, stsc = stbl.find(b"co64") or stbl.child(b"stco"), stbl.child(b"stsc")
    chunks = min(_rows(positions, 8 if positions.kind == b"co64" else 4), _CHUNKS_KEPT)
    first, per_chunk, _ = stsc.numbers(8, 3 * min(_rows(stsc, 12), chunks), ">u4").astype(np.int64).reshape(-1, 3).T
    count = int(np.searchsorted(first, chunks, side="right"))
    chunks_of_rows = np.diff(np.append(first[:count], chunks + 1))
    if (chunks_of_rows < 0).any():
        raise Unusual
    return chunks, int((chunks_of_rows * per_chunk[:count]).sum()), count


def _rows(box: Box, row_bytes: int) -> int:
    (rows,) = struct.unpack(">I", box.read(4, 4))
    if box.end - box.start < 8 + row_bytes * rows:
        raise Unusual
    return int(rows)


def _first_rows(box: Box, row_bytes: int, rows: int) -> bytes:
    rows = min(rows, _rows(box, row_bytes))
    return packed(box.kind, box.read(0, 4), struct.pack(">I", rows), box.read(8, row_bytes * rows))


def _sizes(box: Box, samples: int) -> bytes:
    fixed_bytes, count = struct.unpack(">II", box.read(4, 8))
    if samples > count or (not fixed_bytes and box.end - box.start < 12 + 4 * count):
        raise Unusual
    sizes = b"" if fixed_bytes else box.read(12, 4 * samples)
    return packed(box.kind, box.read(0, 8), struct.pack(">I", samples), sizes)


def _positions(box: Box, chunks: int, shift_bytes: int) -> bytes:
    positions = box.numbers(8, chunks, ">u8" if box.kind == b"co64" else ">u4").astype(np.uint64)
    moved = positions + np.uint64(shift_bytes)  # what a hostile position wraps around to is not in the file either
    return packed(b"co64", struct.pack(">II", 0, chunks), moved.astype(">u8").tobytes())
