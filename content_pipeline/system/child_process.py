"""Child processes: fork, messages through a pipe, limits, death with the parent, and reaping.

Plain `fork`, because workers may be daemonic `multiprocessing` processes, which may have no children; and because a
fork has everything loaded that its parent has. What a child sends is pickled: both ends are the same code of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LENGTH_BYTES = 8  # before each message
_READ_BYTES = 1 << 16
_REAP_S = 2.0

Send = Callable[[Any], None]


class ChildDied(Exception):
    """A child process ended before it was finished."""


@dataclass(frozen=True)
class Limits:
    """What a child may use; it is never allowed more than its parent."""

    memory_bytes: int
    cpu_s: int
    output_bytes: int


@dataclass(eq=False)
class ChildProcess:
    """A forked process that does one thing, and sends values to its parent while it does."""

    pid: int
    pipe: int
    _unread: bytearray = field(default_factory=bytearray, repr=False)

    @classmethod
    def start(
        cls, run: Callable[[Send], None], *, set_up: Callable[[], None] | None = None, own_group: bool = False
    ) -> ChildProcess:
        """Fork a child that calls `run` with a function that sends a value.

        `set_up` comes before, in place of the default handlers of signals. A child with a group of its own gets
        signals together with all that it starts, and not those of its parent's terminal.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        reading, writing = os.pipe()
        die_with_parent = die_with_parent_hook(os.getpid())
        # A signal between fork and the child's own handlers would run the parent's clean-up in the child.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)

        def prepare() -> None:
            os.close(reading)
            if own_group:
                os.setpgid(0, 0)
            die_with_parent()
            (_default_signals if set_up is None else set_up)()
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            gc.freeze()  # what the parent has loaded is no garbage: looking through it costs time and memory

        try:
            pid = os.fork()
            if pid == 0:
                _live(prepare, run, writing)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        os.close(writing)
        if own_group:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # the child does it too; one is first
                os.setpgid(pid, pid)
        return cls(pid, reading)

    def receive(self) -> list[Any] | None:
        """The values that have come in since, after waiting for some bytes; None when no more can come."""
        data = os.read(self.pipe, _READ_BYTES)
        if not data:
            return None
        self._unread += data
        values = []
        while len(self._unread) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._unread[:_LENGTH_BYTES])
            if len(self._unread) < end:
                break
            values.append(pickle.loads(memoryview(self._unread)[_LENGTH_BYTES:end]))
            del self._unread[:end]
        return values

    def receive_all(self) -> list[Any]:
        """Every value that is still to come, until the child has nothing more to say."""
        values: list[Any] = []
        while (received := self.receive()) is not None:
            values += received
        return values

    def has_ended_silently(self) -> bool:
        """Whether its end of the pipe is closed, with nothing left to read."""
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        return any(event & select.POLLHUP and not event & select.POLLIN for _, event in poll.poll(0))

    def signal_group(self, number: signal.Signals) -> None:
        """To a child that has a group of its own, and to all that it started."""
        _signal_group(self.pid, number)

    def reap(self, patience_s: float = _REAP_S) -> int | None:
        """The wait status of a child that is about to end; None when it does not. Its pipe is closed."""
        self._close()
        deadline = time.monotonic() + patience_s
        while (status := self.reap_now()) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        return status

    def reap_now(self) -> int | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return status if pid else None

    def stop(self) -> None:
        """End it at once."""
        self._close()
        os.kill(self.pid, signal.SIGKILL)  # until it is waited for, the number cannot be anyone else's
        os.waitpid(self.pid, 0)

    def _close(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


def wait_for_any(children: Sequence[ChildProcess], timeout_s: float | None = None) -> list[ChildProcess]:
    """Those that have sent something, or ended; waits for the first of them."""
    poll = select.poll()
    by_pipe = {child.pipe: child for child in children}
    for pipe in by_pipe:
        poll.register(pipe, select.POLLIN)
    return [by_pipe[pipe] for pipe, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)]


def describe_crash(status: int) -> str | None:
    """How a process died, by its wait status; None when it ended by itself and well."""
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.WEXITSTATUS(status)
    return None if code == 0 else f"ended with exit code {code}"


def die_with_parent_hook(parent: int, limits: Limits | None = None) -> Callable[[], None]:
    """What a child calls on itself, first thing. Everything is looked up here, before the fork."""
    libc = _libc()
    wanted = () if limits is None else _resource_limits(limits)

    def die_with_parent() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we could ask
            os._exit(1)
        for limit, value in wanted:
            hard = resource.getrlimit(limit)[1]
            allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (allowed, allowed))

    return die_with_parent


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that leads a session, and whatever it started; one that has ended already is only collected."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGKILL)
    process.wait()


@cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _resource_limits(limits: Limits) -> tuple[tuple[int, int], ...]:
    return (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_FSIZE, limits.output_bytes),
        (resource.RLIMIT_CORE, 0),
    )


def _live(prepare: Callable[[], None], run: Callable[[Send], None], writing: int) -> NoReturn:
    """The child's whole life: it must never return into the code that forked it."""
    code = 1
    try:
        prepare()
        run(lambda value: _send(writing, value))
        code = 0
    except BaseException as error:  # noqa: BLE001 - the boundary of a process: report, then end
        traceback.print_exception(error)
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _send(writing: int, value: Any) -> None:
    message = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    data = memoryview(len(message).to_bytes(_LENGTH_BYTES) + message)
    try:
        while data:
            data = data[os.write(writing, data) :]
    except BrokenPipeError:
        os._exit(1)  # nobody listens any more


def _default_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # already gone
        os.killpg(pid, number)
