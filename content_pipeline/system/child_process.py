"""Children that end with their parent, however it ends: kill -9 included."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1


@cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent_hook(parent: int) -> Callable[[], None]:
    """What a child calls on itself, first thing. Everything is looked up here, before the fork."""
    libc = _libc()

    def die_with_parent() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we could ask
            os._exit(1)

    return die_with_parent


def has_ended(pid: int) -> bool:
    """Whether a process is over, though nobody may have collected it yet; False where that cannot be seen."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return sys.platform == "linux"
    except OSError:
        return False


@dataclass(frozen=True)
class Helper:
    """A forked process that does one thing, and says what came of it through a pipe.

    Plain `fork`, because workers may be daemonic `multiprocessing` processes, which may have no children.
    """

    pid: int
    pipe: int

    @classmethod
    def start(cls, speak: Callable[[IO[bytes]], None]) -> Helper:
        reading, writing = os.pipe()
        die_with_parent = die_with_parent_hook(os.getpid())
        pid = os.fork()
        if pid == 0:
            _speak_and_end(speak, reading, writing, die_with_parent)
        os.close(writing)
        return cls(pid, reading)

    def stop(self) -> None:
        os.close(self.pipe)
        os.kill(self.pid, signal.SIGKILL)  # until it is waited for, the number cannot be anyone else's
        os.waitpid(self.pid, 0)


def _speak_and_end(
    speak: Callable[[IO[bytes]], None], reading: int, writing: int, die_with_parent: Callable[[], None]
) -> None:
    """The child's whole life: it must never return into the code that forked it."""
    try:
        os.close(reading)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        gc.freeze()  # what the parent has loaded is no garbage: looking through it costs time, and its own copy of it
        with os.fdopen(writing, "wb") as pipe:
            speak(pipe)
    except BrokenPipeError:
        pass  # nobody listens any more
    except BaseException:  # noqa: BLE001 - the boundary of a process: report, then end
        traceback.print_exc()
    finally:
        os._exit(0)  # whether all was said is heard at the other end
