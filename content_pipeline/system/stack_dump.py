"""Where a process hangs: the stack it writes by itself on a signal, and what the kernel says of it."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ASK_FOR_STACK = signal.SIGUSR1
PATIENCE_S = 2.0  # to write it; one that is stuck in the kernel never will
QUIET_S = 0.2
SHOWN_FRAMES = 6
_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+|\?+) in (?P<name>.*)')
_STATES = {"R": "running", "S": "sleeping", "D": "waiting for the disk or the network", "T": "stopped", "t": "stopped"}


def write_stack_on_signal(log: int) -> None:
    """For the rest of this process and its forks, also inside of C code. A crash leaves its stack there, too."""
    faulthandler.enable(log)
    faulthandler.register(ASK_FOR_STACK, log, all_threads=True)


@dataclass(frozen=True)
class Stack:
    """Of one process: where it is, innermost call first, and what the kernel says that it does."""

    pid: int
    calls: tuple[str, ...]
    kernel: str

    def __str__(self) -> str:
        calls = " < ".join(self.calls) if self.calls else "it did not say where"
        return f"process {self.pid}, {self.kernel}: {calls}"


def stacks_of_group(leader: int, log: Path) -> list[Stack]:
    """Of a child and the helpers it forked; the whole stacks are in its log then. One that is stopped is woken up."""
    return [stack for pid in _members(leader) if (stack := _stack(pid, leader, log)) is not None]


def calls_in(text: str) -> tuple[str, ...]:
    """The innermost calls of what `faulthandler` wrote: of the thread that was asked, if it is marked."""
    _, mark, current = text.partition("Current thread ")
    lines = (current if mark else text).splitlines()[1:]
    frames: list[str] = []
    for line in lines:
        found = _FRAME.search(line)
        if found is None:
            break
        frames.append(f"{Path(found['file']).name}:{found['line']} {found['name'].strip()}")
    return tuple(frames[:SHOWN_FRAMES])


def _stack(pid: int, leader: int, log: Path) -> Stack | None:
    kernel = _kernel_says(pid)
    before = _size(log)
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        if _group_of(pid) != leader:  # it ended, and the number was given anew
            return None
        for number in (ASK_FOR_STACK, signal.SIGCONT):
            signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return Stack(pid, calls_in(_written(log, before)), kernel)


def _written(log: Path, before: int) -> str:
    """What comes into a log from now on, until nothing has come for a moment."""
    deadline = time.monotonic() + PATIENCE_S
    size, changed_s = before, time.monotonic()
    while time.monotonic() < deadline and (size == before or time.monotonic() - changed_s < QUIET_S):
        time.sleep(0.02)
        if (now := _size(log)) != size:
            size, changed_s = now, time.monotonic()
    try:
        with log.open("rb") as file:
            file.seek(before)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _members(leader: int) -> Iterator[int]:
    """The processes of a group, its leader first."""
    yield leader
    for folder in sorted(Path("/proc").glob("[0-9]*")):
        pid = int(folder.name)
        if pid != leader and _group_of(pid) == leader:
            yield pid


def _group_of(pid: int) -> int | None:
    with suppress(OSError):
        return os.getpgid(pid)
    return None


def _kernel_says(pid: int) -> str:
    state, waits_in = "?", ""
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        waits_in = Path(f"/proc/{pid}/wchan").read_text().strip()
    told = _STATES.get(state, f"in state {state}")
    return f"{told} in {waits_in}" if waits_in not in ("", "0") else told
