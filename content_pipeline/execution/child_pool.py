"""Run tasks in forked children, a few at a time, and hear from them.

The parent has loaded what is heavy; a child starts in milliseconds, speaks through a pipe, and ends.
A crash breaks one child only, and is told apart from an ordinary end. Children die with their parent.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from content_pipeline.system.child_process import ChildProcess, describe_crash, wait_for_any
from content_pipeline.system.private_files import private_file, private_folder
from content_pipeline.system.stack_dump import Stack, stacks_of_group, write_stack_on_signal

UNKILLABLE_S = 10.0  # after which a killed child is not waited for any longer


@dataclass(frozen=True)
class Task:
    """`run` is called in the child with a function that sends a value to the parent."""

    name: str
    run: Callable[[Callable[[Any], None]], None]
    log_path: Path


@dataclass(frozen=True)
class Said:
    task: Task
    value: Any


@dataclass(frozen=True)
class Ended:
    """`crash` says how the process died, if it did not end by itself."""

    task: Task
    crash: str | None


@dataclass(eq=False)
class _Child:
    task: Task
    process: ChildProcess
    killed_s: float | None = None

    def signal(self, number: signal.Signals) -> None:
        """To the child and all it started."""
        if number is signal.SIGKILL and self.killed_s is None:
            self.killed_s = time.monotonic()
        self.process.signal_group(number)


class Pool:
    """Starts children, and hears from them. The caller's loop decides what starts when."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._children: dict[ChildProcess, _Child] = {}
        self._given_up: list[ChildProcess] = []

    @property
    def has_room(self) -> bool:
        return len(self._children) < self._slots

    @property
    def running(self) -> frozenset[str]:
        return frozenset(child.task.name for child in self._children.values())

    def start(self, task: Task) -> int:
        """Fork a child for this task; returns its pid."""
        process = ChildProcess.start(task.run, set_up=lambda: _set_up(task.log_path), own_group=True)
        self._children[process] = _Child(task, process)
        return process.pid

    def listen(self, timeout_s: float = 0.2) -> Iterator[Said | Ended]:
        """What children said, and which ended; waits a moment if there is nothing."""
        if not self._children:
            time.sleep(timeout_s)
            return
        for process in wait_for_any(list(self._children), timeout_s):
            child = self._children[process]
            values = process.receive()
            if values is None:
                yield self._end(child)
                continue
            for value in values:
                yield Said(child.task, value)
        yield from self._those_who_do_not_die()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a child and all it started."""
        for child in self._named(name):
            child.signal(number)

    def stacks(self, name: str) -> list[Stack]:
        """Where a child is, and the helpers it forked; it wakes up if it was stopped."""
        return [
            stack for child in self._named(name) for stack in stacks_of_group(child.process.pid, child.task.log_path)
        ]

    def stop(self, grace_s: float = 5.0) -> list[Said | Ended]:
        """Ask the children to end, then make them; returns what they still had to say."""
        last_words: list[Said | Ended] = []
        for child in self._children.values():
            child.signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while self._children and time.monotonic() < deadline:
            last_words += self.listen()
        for child in self._children.values():
            child.signal(signal.SIGKILL)
        while self._children:
            last_words += self.listen()
        return last_words

    def _named(self, name: str) -> list[_Child]:
        return [child for child in self._children.values() if child.task.name == name]

    def _those_who_do_not_die(self) -> Iterator[Ended]:
        """A process that the kernel cannot end (a dead network share), or whose pipe another holds, keeps no slot."""
        now_s = time.monotonic()
        for child in list(self._children.values()):
            if child.killed_s is not None and now_s - child.killed_s > UNKILLABLE_S:
                yield self._end(child)
        self._given_up = [process for process in self._given_up if process.reap_now() is None]

    def _end(self, child: _Child) -> Ended:
        del self._children[child.process]
        status = child.process.reap()
        if status is None:
            self._given_up.append(child.process)
            return Ended(child.task, f"killed, and did not die (process {child.process.pid})")
        child.process.signal_group(signal.SIGKILL)  # whatever it started must not outlive it
        return Ended(child.task, describe_crash(status))


def _set_up(log_path: Path) -> None:
    """In the child: a terminal asks the parent to stop, which asks us by SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    _log_to(log_path)


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _log_to(path: Path) -> None:
    try:
        private_folder(path.parent)
        descriptor = os.open(private_file(path), os.O_WRONLY | os.O_APPEND)
    except OSError:  # work goes on without a log; the state folder's trouble is named where it is written
        descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    write_stack_on_signal(descriptor)  # kept open: what runs may put something else in the place of stderr
    # The parent may have put something of its own in their place.
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
