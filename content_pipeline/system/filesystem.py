"""What the standard library lacks about files: copies that share blocks, safe renames, whether somebody writes."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import signal
import sys
from functools import cache
from pathlib import Path
from typing import Any

FICLONE = 0x40049409  # _IOW(0x94, 9, int)
AT_FDCWD = -100
RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2

# What a system or a file system says that does not know a flag of `renameat2`.
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


class Unsupported(Exception):
    """This file system cannot do that in one step."""


def clone_or_copy(source: Path, target: Path) -> None:
    """A file of its own with the same bytes, on disk when this returns; where the file system can, it shares blocks.

    Never a hard link: whoever writes into one of the two must not change the other.
    """
    with source.open("rb") as reading, target.open("xb") as writing:
        try:
            fcntl.ioctl(writing, FICLONE, reading.fileno())
        except OSError:  # another file system, or one that copies every byte
            shutil.copyfileobj(reading, writing, 1 << 20)
            writing.flush()
        os.fsync(writing)


def exchange(one: Path, other: Path) -> None:
    """Two files change their names, in one step."""
    _renameat2(one, other, RENAME_EXCHANGE)


def move_without_replacing(source: Path, target: Path) -> None:
    """Raises FileExistsError when anything stands there, and then has changed nothing."""
    try:
        _renameat2(source, target, RENAME_NOREPLACE)
    except Unsupported:
        _link_over(source, target)


def _link_over(source: Path, target: Path) -> None:
    """For file systems without the flag; one without links either leaves a moment between looking and renaming."""
    try:
        os.link(source, target, follow_symlinks=False)
        source.unlink()
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        source.rename(target)


def _renameat2(source: Path, target: Path, flag: int) -> None:
    call = _libc_renameat2()
    if call is None:
        raise Unsupported
    if call(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flag) != 0:
        number = ctypes.get_errno()
        if number in _UNKNOWN:
            raise Unsupported
        raise OSError(number, os.strerror(number), str(source), None, str(target))


@cache
def _libc_renameat2() -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None


def is_open_for_writing(path: Path) -> bool:
    """Whether any process has it open for writing, as far as the system tells (Linux, local file systems).

    The kernel grants a read lease only on a file that nobody writes.
    """
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # whoever opens it for real will say what is wrong
    try:
        # Should a writer come just now, we are told by a signal that is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False  # not ours to ask, or a file system without leases
    finally:
        os.close(descriptor)
    return False
