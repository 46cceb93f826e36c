"""Run tasks in forked children, a few at a time, and hear from them.

The parent has loaded what is heavy; a child starts in milliseconds, speaks through a pipe, and ends.
A crash breaks one child only, and is told apart from an ordinary end. Children die with their parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from content_pipeline.system.child_process import die_with_parent_hook
from content_pipeline.system.private_files import private_file, private_folder
from content_pipeline.system.stack_dump import Stack, stacks_of_group, write_stack_on_signal

ASKED_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
UNKILLABLE_S = 10.0  # after which a killed child is not waited for any longer


@dataclass(frozen=True)
class Task:
    """`run` is called in the child with a function that sends a JSON value to the parent."""

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


@dataclass
class _Child:
    task: Task
    pid: int
    pipe: int
    unread: bytes = field(default=b"")
    killed_s: float | None = None


class Pool:
    """Starts children, and hears from them. The caller's loop decides what starts when."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._children: dict[int, _Child] = {}
        self._given_up: set[int] = set()
        self._selector = selectors.DefaultSelector()

    @property
    def has_room(self) -> bool:
        return len(self._children) < self._slots

    @property
    def running(self) -> frozenset[str]:
        return frozenset(child.task.name for child in self._children.values())

    def start(self, task: Task) -> int:
        """Fork a child for this task; returns its pid."""
        sys.stdout.flush()
        sys.stderr.flush()
        reader, writer = os.pipe()
        die_with_parent = die_with_parent_hook(os.getpid())
        # A signal between fork and the child's own handlers would run the parent's clean-up in the child.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ASKED_TO_STOP)
        try:
            pid = os.fork()
            if pid == 0:
                _live_as_child(task, writer, die_with_parent, blocked)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the child does it too; one is first
            os.setpgid(pid, pid)
        os.close(writer)
        self._children[reader] = _Child(task, pid, reader)
        self._selector.register(reader, selectors.EVENT_READ)
        return pid

    def listen(self, timeout_s: float = 0.2) -> Iterator[Said | Ended]:
        """What children said, and which ended; waits a moment if there is nothing."""
        if not self._children:
            time.sleep(timeout_s)
            return
        for ready, _ in self._selector.select(timeout_s):
            child = self._children[ready.fd]
            data = os.read(child.pipe, 1 << 16)
            if not data:
                yield Ended(child.task, self._reap(child))
                continue
            *lines, child.unread = (child.unread + data).split(b"\n")
            for line in lines:
                yield Said(child.task, json.loads(line))
        yield from self._those_who_do_not_die()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a child and all it started."""
        for child in self._children.values():
            if child.task.name == name:
                _signal_child(child, number)

    def stacks(self, name: str) -> list[Stack]:
        """Where a child is, and the helpers it forked; it wakes up if it was stopped."""
        named = (child for child in self._children.values() if child.task.name == name)
        return [stack for child in named for stack in stacks_of_group(child.pid, child.task.log_path)]

    def stop(self, grace_s: float = 5.0) -> list[Said | Ended]:
        """Ask the children to end, then make them; returns what they still had to say."""
        last_words: list[Said | Ended] = []
        for child in self._children.values():
            _signal_group(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while self._children and time.monotonic() < deadline:
            last_words += self.listen()
        for child in self._children.values():
            _signal_child(child, signal.SIGKILL)
        while self._children:
            last_words += self.listen()
        return last_words

    def _those_who_do_not_die(self) -> Iterator[Ended]:
        """A process that the kernel cannot end (a dead network share), or whose pipe another holds, keeps no slot."""
        now_s = time.monotonic()
        for child in list(self._children.values()):
            if child.killed_s is not None and now_s - child.killed_s > UNKILLABLE_S:
                yield Ended(child.task, self._reap(child))
        self._given_up = {pid for pid in self._given_up if os.waitpid(pid, os.WNOHANG) == (0, 0)}

    def _reap(self, child: _Child) -> str | None:
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        del self._children[child.pipe]
        status = _collected(child.pid)
        if status is None:
            self._given_up.add(child.pid)
            return f"killed, and did not die (process {child.pid})"
        _signal_group(child.pid, signal.SIGKILL)  # whatever it started must not outlive it
        if os.WIFSIGNALED(status):
            return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
        code = os.WEXITSTATUS(status)
        return None if code == 0 else f"ended with exit code {code}"


def _live_as_child(
    task: Task, writer: int, die_with_parent: Callable[[], None], blocked: set[int | signal.Signals]
) -> NoReturn:
    code = 1
    try:
        os.setpgid(0, 0)
        die_with_parent()
        for number in ASKED_TO_STOP:  # a terminal asks the parent, which asks us by SIGTERM
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _interrupt)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _log_to(task.log_path)
        task.run(lambda value: _send(writer, value))
        code = 0
    except BaseException as error:  # noqa: BLE001 - the boundary of a process: report, then end
        import traceback

        traceback.print_exception(error)
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _collected(pid: int, patience_s: float = 2.0) -> int | None:
    """How a process ended that is about to; None when it does not."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        time.sleep(0.005)
    return None


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


def _send(writer: int, value: Any) -> None:
    data = json.dumps(value).encode() + b"\n"
    while data:
        data = data[os.write(writer, data) :]


def _signal_child(child: _Child, number: signal.Signals) -> None:
    if number is signal.SIGKILL and child.killed_s is None:
        child.killed_s = time.monotonic()
    _signal_group(child.pid, number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # already gone
        os.killpg(pid, number)
