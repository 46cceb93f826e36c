"""Reading the first bytes of a database file without losing the locks that SQLite holds on it.

A process that closes any descriptor of a file loses all of its POSIX locks on that file, also those that another thread
took by another descriptor: two processes could then write to one database at once. SQLite takes care of its own
descriptors. So the ones that are opened here stay open, one for each file.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

MOST_KEPT = 64  # of a process that goes through many databases, as tests do, the oldest are closed

_kept: dict[tuple[int, int], int] = {}
_using = threading.Lock()


def read_beginning(path: Path, size: int) -> bytes:
    """At most `size` bytes."""
    with _using:
        return os.pread(_descriptor(path), size, 0)


def _descriptor(path: Path) -> int:
    wanted = _identity(path.stat())
    if wanted in _kept:
        if _is_open_to(_kept[wanted], wanted):
            return _kept[wanted]
        del _kept[wanted]  # somebody closed it, and the number may be another file's
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    found = _identity(os.fstat(descriptor))
    _kept[found] = descriptor
    while len(_kept) > MOST_KEPT:
        os.close(_kept.pop(next(iter(_kept))))
    return descriptor


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_open_to(descriptor: int, wanted: tuple[int, int]) -> bool:
    try:
        return _identity(os.fstat(descriptor)) == wanted
    except OSError:
        return False


def _unlock_in_child() -> None:
    global _using
    _using = threading.Lock()  # a thread that is not here may hold it


os.register_at_fork(after_in_child=_unlock_in_child)
