"""Content identity in three tiers.

The signature (see `source`) reads nothing. The quick digest reads five samples, and is enough to name
a video. The full digest reads everything: an edit between samples must be seen, so every key of a
later stage hangs on it. Digests carry their algorithm, so that older ones stay understood.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from content_pipeline.errors import BadSettings, from_os_error
from content_pipeline.media.source import Source

SAMPLE_BYTES = 1 << 20
READ_BYTES = 1 << 19  # stays in a core's own cache until it is hashed
READ_AHEAD_BYTES = 1 << 22
SAMPLE_POSITIONS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Fingerprint:
    quick: str
    full: str
    size_bytes: int


def fingerprint(source: Source, progress: Callable[[float], None] | None = None, cores: int = 1) -> Fingerprint:
    quick, full = quick_digest(source), full_digest(source, progress=progress, cores=cores)
    source.check_unchanged()
    return Fingerprint(quick, full, source.signature.size_bytes)


def quick_digest(source: Source) -> str:
    """SHA-256 of the size and five 1 MiB samples; the last one ends where the file ends."""
    size_bytes = source.signature.size_bytes
    hasher = hashlib.sha256(str(size_bytes).encode())
    for position in SAMPLE_POSITIONS:
        offset = min(int(size_bytes * position), max(0, size_bytes - SAMPLE_BYTES))
        hasher.update(_read_at(source, offset, SAMPLE_BYTES))
    return f"sha256:{hasher.hexdigest()}"


def full_digest(
    source: Source, algorithm: str = "blake3", progress: Callable[[float], None] | None = None, cores: int = 1
) -> str:
    """The digest of every byte. With more than one core, the next bytes are read while the last are hashed.

    The hash itself stays on this thread: a pool of threads inside of it would not survive the forks of this project.
    """
    hasher = _hasher(algorithm)
    size_bytes, position = source.signature.size_bytes, 0
    is_ahead = cores > 1 and size_bytes > 2 * READ_AHEAD_BYTES
    with closing(_pieces_ahead(source) if is_ahead else _pieces(source)) as pieces:
        for piece in pieces:
            hasher.update(piece)
            position += len(piece)
            if progress is not None and size_bytes:
                progress(min(1.0, position / size_bytes))
            if position > size_bytes:
                break  # it grows while it is read: that it changed is found out by whoever asked
    return f"{algorithm}:{hasher.hexdigest()}"


def matches(source: Source, digest: str, progress: Callable[[float], None] | None = None) -> bool:
    """Whether the file still holds what a stored full digest says, whichever algorithm made it."""
    algorithm, _, _ = digest.partition(":")
    return full_digest(source, algorithm, progress) == digest


def _hasher(algorithm: str) -> Any:
    if algorithm == "blake3":
        from blake3 import blake3

        return blake3()
    if algorithm in ("blake2b", "sha256"):
        return hashlib.new(algorithm)
    raise BadSettings(f"unknown digest algorithm `{algorithm}`")


def _read_at(source: Source, offset: int, count: int) -> bytes:
    try:
        return os.pread(source.descriptor, count, offset)
    except OSError as error:
        raise from_os_error(error, source.path) from error


def _pieces(source: Source) -> Generator[memoryview, None, None]:
    """All bytes, in one buffer used over and over."""
    buffer, position = memoryview(bytearray(READ_BYTES)), 0
    while count := _read_into(source, buffer, position):
        yield buffer[:count]
        position += count


def _pieces_ahead(source: Source) -> Generator[memoryview, None, None]:
    """The same in two buffers: a thread fills one while the other is used, and is gone when this ends."""
    from concurrent.futures import ThreadPoolExecutor

    this, following = (memoryview(bytearray(READ_AHEAD_BYTES)) for _ in range(2))
    with ThreadPoolExecutor(max_workers=1) as reader:
        count, position = _read_into(source, this, 0), 0
        while count:
            position += count
            reading = reader.submit(_read_into, source, following, position)
            yield this[:count]
            count = reading.result()
            this, following = following, this


def _read_into(source: Source, buffer: memoryview, offset: int) -> int:
    try:
        return os.preadv(source.descriptor, [buffer], offset)
    except OSError as error:
        raise from_os_error(error, source.path) from error
