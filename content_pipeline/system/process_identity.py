"""Which process is which, where machines and containers share a database or a folder.

A pid means something in one pid namespace of one kernel, until the process ends. Host names and machine ids are
cloned along with machines; the boot id is not. What cannot be known for sure is never taken for a death.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GONE = "gone"
STOPPED_STATES = "Tt"


@dataclass(frozen=True)
class Place:
    """Where a pid means something. Also where clocks agree: a time namespace shifts them, and start times with them."""

    machine: str
    boot: str
    namespace: str


@dataclass(frozen=True)
class ProcessIdentity:
    """`place` is None where it cannot be known. `started` is in the kernel's own count; the host is for people."""

    host: str
    place: Place | None
    pid: int
    started: str

    def __str__(self) -> str:
        place = ("", "", "") if self.place is None else (self.place.machine, self.place.boot, self.place.namespace)
        return ":".join((self.host, *place, str(self.pid), self.started))

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity | None:
        """None for what is not written this way, an earlier version's ids included."""
        parts = text.split(":")
        if len(parts) != 6 or not parts[4].isdecimal():
            return None
        host, machine, boot, namespace, pid, started = parts
        place = Place(machine, boot, namespace) if machine and boot and namespace else None
        return cls(host, place, int(pid), started)


def this_process() -> ProcessIdentity:
    pid = os.getpid()
    started = started_at(pid)
    host = socket.gethostname().replace(":", "-")[:60]
    return ProcessIdentity(host, here(), pid, "" if started is None else started)


def is_gone(process: ProcessIdentity, place: Place | None, start_of: Callable[[int], str | None] | None = None) -> bool:
    """Whether a process is over for sure, as seen from a place: only its own kernel and namespace can tell.

    Another boot of a machine with the same id may be a clone that lives, so it proves nothing.
    """
    if place is None or process.place != place or not process.started:
        return False
    found = (started_at if start_of is None else start_of)(process.pid)
    return found is not None and found != process.started


def is_awake(process: ProcessIdentity) -> bool:
    """Whether it lives here, and nobody has stopped it."""
    if process.place is None or process.place != here() or started_at(process.pid) != process.started:
        return False
    return state_of(process.pid) not in STOPPED_STATES


def send_signal(process: ProcessIdentity, number: signal.Signals) -> bool:
    """To this very process or to nobody; False when it is not here, or not there any more."""
    if process.place is None or process.place != here():
        return False
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if started_at(process.pid) != process.started:
            return False  # the number was given anew
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
            return True
        return False
    finally:
        os.close(descriptor)


def started_at(pid: int) -> str | None:
    """When a process of this place started; `GONE` when there is none, None when that cannot be seen.

    One that has ended but was not collected counts as gone.
    """
    try:
        fields = _stat_fields(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None if _answers(pid) else GONE  # `hidepid` hides those of other users, who live
    except OSError:
        return None
    return GONE if fields[0] in "ZX" else fields[19]


def state_of(pid: int) -> str:
    """The kernel's letter for what a process does; empty when it cannot be seen."""
    try:
        return _stat_fields(pid)[0]
    except OSError:
        return ""


def here() -> Place | None:
    """The place of this process; asked anew after a fork, which may lead into another namespace."""
    return _here(os.getpid())


@cache
def _here(pid: int) -> Place | None:
    try:
        if Path("/proc/self").readlink().name != str(pid):
            return None  # /proc shows another namespace: what it says of a pid is about somebody else
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
        spaces = [Path(f"/proc/self/ns/{kind}").stat().st_ino for kind in ("pid", *_time_namespace())]
    except OSError:
        return None
    return Place(_machine(), boot[:16], "-".join(map(str, spaces)))


def _time_namespace() -> tuple[str, ...]:
    return ("time",) if Path("/proc/self/ns/time").exists() else ()


def _machine() -> str:
    """A digest: the id itself is not for others to know. Containers often have none."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError):
            if text := Path(path).read_text().strip():
                return _digest(text)
    return _digest(socket.gethostname())


def _digest(text: str) -> str:
    return hashlib.sha256(f"content-ai {text}".encode()).hexdigest()[:16]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _stat_fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, from the state on: the name before it may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
