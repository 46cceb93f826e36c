"""Fingerprinting against reading alone, both from the page cache."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import recordings
from bench.measure import Cost, Row, cost_of

SIZE_BYTES = 512 << 20
TRIES = 5


def rows(folder: Path) -> Iterator[Row]:
    file = recordings.random_bytes(folder / "big.bin", SIZE_BYTES)
    ours, floor = (min(_tries(work, file), key=lambda cost: cost.wall_s) for work in (_fingerprint, _read))
    file.unlink()
    # Reading is part of fingerprinting: the target is at most three times the floor.
    yield Row("fingerprint of 512 MiB: time", ours.wall_s, floor.wall_s, "s", 1 / 3, "reading it")


def _tries(work: object, file: Path) -> list[Cost]:
    assert callable(work)
    return [cost_of(partial(work, file), _load) for _ in range(TRIES)]


def _load() -> None:
    import blake3  # noqa: F401

    import content_pipeline.media.fingerprint  # noqa: F401


def _fingerprint(file: Path) -> str:
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
