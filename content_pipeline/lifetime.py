"""Children that end with their parent, however it ends: kill -9 included."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from functools import cache

_PR_SET_PDEATHSIG = 1


@cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def dying_with(parent: int) -> Callable[[], None]:
    """What a child calls on itself, first thing. Everything is looked up here, before the fork."""
    libc = _libc()

    def die_with_parent() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we could ask
            os._exit(1)

    return die_with_parent
