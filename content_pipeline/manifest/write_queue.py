"""A ticket lock for the writers of one SQLite file: first come, first served.

SQLite itself lets whoever asks at the right moment write next, and who has waited longest asks least often: under
load one process can starve. So writers queue in a file beside the database first. Each takes the next ticket,
locks the byte of that number, and writes when no byte before its own is locked any more.

The kernel drops the locks of a process that ends, however it ends. SQLite's own lock still decides: where the file
system has no such locks, or a writer without a ticket comes in between, only the order is lost.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from content_pipeline.errors import DatabaseBusy, printable

# Locks of an open file, not of a process: threads have their own, and no close elsewhere drops them. Linux only.
_SET_LOCK: int = getattr(fcntl, "F_OFD_SETLK", 0)
_GET_LOCK: int = getattr(fcntl, "F_OFD_GETLK", 0)
_LOCK = struct.Struct("@hhqqi4x")  # type, whence, start, length, process
_NUMBER = struct.Struct("<q")
# The file holds the number of the last ticket; the bytes that are locked lie behind it, and need not exist.
_FIRST = 4096
_POLL_S, _LONGEST_POLL_S = 0.0005, 0.02

_open_files: set[int] = set()


def _close_tickets_of_the_parent() -> None:
    """A lock lasts until every copy of its descriptor is closed, also a child's."""
    for descriptor in _open_files:
        os.close(descriptor)
    _open_files.clear()


os.register_at_fork(after_in_child=_close_tickets_of_the_parent)


def ticket_file(database: Path) -> Path:
    return database.with_name(f"{database.name}.turns")


@contextmanager
def wait_to_write(database: Path, timeout_s: float) -> Iterator[None]:
    """Wait until every writer that came before is done; the next one goes on when the block ends."""
    descriptor = _opened(ticket_file(database)) if _SET_LOCK else None
    try:
        if descriptor is not None:
            _wait(descriptor, database, time.monotonic() + timeout_s)
        yield
    finally:
        if descriptor in _open_files:  # not so in a child that was forked meanwhile
            _open_files.remove(descriptor)
            os.close(descriptor)


def _opened(path: Path) -> int | None:
    """None where no file can be made: SQLite does without, or says what is wrong."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open_files.add(descriptor)
        return descriptor
    return None


def _wait(descriptor: int, database: Path, deadline_s: float) -> None:
    ticket: int | None = None
    while True:
        try:
            if ticket is None:
                ticket = _take_ticket(descriptor)
            ahead = 1 if ticket is None else _tickets_ahead(descriptor, ticket)
        except OSError:  # a file system without locks: no order
            return
        if not ahead:
            return
        if time.monotonic() > deadline_s:
            raise DatabaseBusy(f"the manifest {printable(database)} is busy: others have been writing for too long")
        time.sleep(min(_POLL_S * ahead, _LONGEST_POLL_S))


def _take_ticket(descriptor: int) -> int | None:
    """The next number, with its byte locked; None while another process takes one, which takes microseconds."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    try:
        found = os.pread(descriptor, _NUMBER.size, 0)
        ticket = (_NUMBER.unpack(found)[0] if len(found) == _NUMBER.size else 0) + 1
        os.pwrite(descriptor, _NUMBER.pack(ticket), 0)
        fcntl.fcntl(descriptor, _SET_LOCK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _FIRST + ticket, 1, 0))
        return ticket
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _tickets_ahead(descriptor: int, ticket: int) -> int:
    """How many tickets lie between this one and the first that is still in use; 0 when this writer may write."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _FIRST, ticket, 0)
    kind, _, start, _, _ = _LOCK.unpack(fcntl.fcntl(descriptor, _GET_LOCK, asked))
    return 0 if kind == fcntl.F_UNLCK else max(1, _FIRST + ticket - start)
