"""The first moments of a long mp4 or mov, for whoever only wants to know what it is.

Opening a recording of 12 hours costs libavformat a third of a second and a quarter of a gigabyte, for a list of all
packets. Everything it says of itself stands elsewhere: durations and rates in the headers and in the runs of
durations, formats in the descriptions. So the lists are cut to the first packets of each track, and nothing else.
"""

from __future__ import annotations

import struct

import numpy as np

from content_pipeline.media.boxes import Box, Unusual, packed, whole_file
from content_pipeline.media.source import Source

LONG_BYTES = 1 << 22  # of headers: what is shorter is opened as it is

_CHUNKS_KEPT = 512
_NESTED = {b"moov", b"trak", b"mdia", b"minf", b"stbl"}
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
        return _head(file, movie, len(_head(file, movie, 0)))
    except Unusual:
        return b""


def _head(file: Box, movie: Box, shift_bytes: int) -> bytes:
    brand = file.children()[0]
    start = packed(brand.kind, brand.read()) if brand.kind == b"ftyp" else b""
    return start + _rebuilt(movie, shift_bytes) + struct.pack(">I4sQ", 1, b"mdat", 16 + file.end)


def _rebuilt(box: Box, shift_bytes: int) -> bytes:
    if box.kind == b"stbl":
        return packed(box.kind, *_tables(box, shift_bytes))
    if box.kind in _NESTED:
        return packed(box.kind, *(_rebuilt(child, shift_bytes) for child in box.children()))
    return packed(box.kind, box.read())


def _tables(stbl: Box, shift_bytes: int) -> list[bytes]:
    chunks, samples, runs = _kept(stbl)
    tables = []
    for box in stbl.children():
        if box.kind in (b"stco", b"co64"):
            tables.append(_positions(box, chunks, shift_bytes))
        elif box.kind == b"stsc":
            tables.append(_first_rows(box, 12, runs))
        elif box.kind == b"stsz":
            tables.append(_sizes(box, samples))
        elif box.kind in (b"ctts", b"stss", b"stps"):
            tables.append(_first_rows(box, 8 if box.kind == b"ctts" else 4, samples))
        elif box.kind not in _PER_SAMPLE:
            tables.append(packed(box.kind, box.read()))
    return tables


def _kept(stbl: Box) -> tuple[int, int, int]:
    """How many chunks stay, how many samples these hold, and how many runs of chunks that are."""
    positions, runs = stbl.find(b"co64") or stbl.child(b"stco"), stbl.child(b"stsc")
    chunks = min(_rows(positions), _CHUNKS_KEPT)
    first, per_chunk, _ = runs.numbers(8, 3 * min(_rows(runs), chunks), ">u4").astype(np.int64).reshape(-1, 3).T
    count = int(np.searchsorted(first, chunks, side="right"))
    in_runs = np.diff(np.append(first[:count], chunks + 1))
    if (in_runs < 0).any():
        raise Unusual
    return chunks, int((in_runs * per_chunk[:count]).sum()), count


def _rows(box: Box) -> int:
    (rows,) = struct.unpack(">I", box.read(4, 4))
    return int(rows)


def _first_rows(box: Box, row_bytes: int, rows: int) -> bytes:
    rows = min(rows, _rows(box))
    return packed(box.kind, box.read(0, 4), struct.pack(">I", rows), box.read(8, row_bytes * rows))


def _sizes(box: Box, samples: int) -> bytes:
    fixed_bytes, count = struct.unpack(">II", box.read(4, 8))
    samples = min(samples, count)
    sizes = b"" if fixed_bytes else box.read(12, 4 * samples)
    return packed(box.kind, box.read(0, 8), struct.pack(">I", samples), sizes)


def _positions(box: Box, chunks: int, shift_bytes: int) -> bytes:
    positions = box.numbers(8, chunks, ">u8" if box.kind == b"co64" else ">u4").astype(np.uint64)
    moved = positions + np.uint64(shift_bytes)  # what a hostile position wraps around to is not in the file either
    return packed(b"co64", struct.pack(">II", 0, chunks), moved.astype(">u8").tobytes())
