"""Is a file whole? One that is still being copied or recorded is left alone."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path


def is_settled(path: Path, mtime_ns: int, now_ns: int, quiet_s: float) -> bool:
    """Nobody writes it, and it has not changed for a while. A time in the future says nothing, and passes."""
    age_s = (now_ns - mtime_ns) / 1e9
    return not 0 <= age_s < quiet_s and not is_open_for_writing(path)


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
