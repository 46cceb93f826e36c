"""Fingerprinting against reading alone, both from the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, cost_of

SIZE_BYTES = 512 << 20


def rows(folder: Path) -> Iterator[Row]:
    file = folder / "big.bin"
    with file.open("wb") as out:
        for _ in range(SIZE_BYTES >> 20):
            out.write(os.urandom(1 << 20))
    _read(file)
    ours, floor = cost_of(lambda: _ours(file)), cost_of(lambda: _read(file))
    # Reading is part of fingerprinting: the target is at most three times the floor.
    yield Row("fingerprint of 512 MiB against reading it", ours.wall_s, floor.wall_s, "s", 1 / 3)
    file.unlink()


def _ours(file: Path) -> str:
    from content_pipeline.media.fingerprint import fingerprint
    from content_pipeline.media.source import open_source

    with open_source(file) as source:
        return fingerprint(source).full


def _read(file: Path) -> int:
    buffer, total = memoryview(bytearray(1 << 20)), 0
    with file.open("rb", buffering=0) as handle:
        while count := handle.readinto(buffer):
            total += count
    return total
