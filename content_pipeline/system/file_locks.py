"""Lock files that go away: whoever held one removes it, and what a killed process left is removed by the next sweep.

A lock file may only be removed by who holds its lock. Whoever opened it before that holds the lock of a file that is
not there any more, which guards nothing: so the name is looked at again once the lock is taken.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from content_pipeline.system.private_files import private_file

TRY_AGAIN_S = 0.1
ASK_HOLDER_S = 1.0
MOST_NAME_BYTES = 200


def try_lock(file: IO[str], shared: bool = False) -> bool:
    """Take a lock that ends with the process, without waiting; False when somebody else has it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def file_lock(
    path: Path, patience_s: float, name: str = "", is_current: Callable[[str], bool] = lambda _name: True
) -> Iterator[bool]:
    """Hold the lock of this file while the block runs; False when it could not be had.

    Others find our `name` in it. Whoever holds it is waited for only while `is_current` says so of its name.
    """
    held = _wait_for(path, patience_s, is_current)
    try:
        if held is not None:
            with suppress(OSError):  # on a full disk they wait for us as long as for anybody
                os.ftruncate(held.fileno(), 0)
                os.pwrite(held.fileno(), name.encode(), 0)
        yield held is not None
    finally:
        if held is not None:
            with held:
                path.unlink(missing_ok=True)


def _wait_for(path: Path, patience_s: float, is_current: Callable[[str], bool]) -> IO[str] | None:
    """Until the lock is ours, or there is nobody left to wait for."""
    ask_again_s = time.monotonic()
    give_up_s = ask_again_s + patience_s
    while (held := _held(private_file(path))) is None:
        now_s = time.monotonic()
        if now_s > give_up_s:
            return None
        if now_s >= ask_again_s:
            holder = _name_in(path)
            if holder and not is_current(holder):
                return None
            ask_again_s = now_s + ASK_HOLDER_S
        time.sleep(TRY_AGAIN_S)
    return held


def _name_in(path: Path) -> str:
    try:
        return path.read_bytes()[:MOST_NAME_BYTES].decode(errors="replace")
    except FileNotFoundError:  # it was let go in this moment
        return ""


def remove_left_locks(folder: Path, name: re.Pattern[str]) -> int:
    """Remove the lock files of such names that nobody holds; returns how many."""
    removed = 0
    for path in folder.glob("*"):
        held = _held(path) if name.fullmatch(path.name) and path.is_file() else None
        if held is not None:
            with held:
                path.unlink(missing_ok=True)
                removed += 1
    return removed


def _held(path: Path) -> IO[str] | None:
    """The file of this name, with its lock; None when somebody else has it, or has just removed it."""
    with suppress(FileNotFoundError):
        file = path.open("r+")
        if try_lock(file) and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()
    return None
