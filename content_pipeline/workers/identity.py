"""Who a worker is, and whether it is still alive. On one host a dead process is known at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path


def this_worker() -> str:
    """Host, boot, pid and the moment the process started: a pid that was given anew is somebody else."""
    return f"{socket.gethostname()}:{_boot_id()}:{os.getpid()}:{_started_at(os.getpid())}"


def is_gone(worker_id: str) -> bool:
    """Only a process of this host is ever called gone; of others the lease decides."""
    try:
        host, boot, pid, started = worker_id.rsplit(":", 3)
        number = int(pid)
    except ValueError:
        return False
    if host != socket.gethostname():
        return False
    (our_start, _, our_container), (start, _, container) = _boot_id().partition("-"), boot.partition("-")
    if start == our_start and container != our_container:
        return False  # another container of this machine: its processes cannot be seen from here
    return start != our_start or _started_at(number) != started


def gone_among(worker_ids: Iterable[str]) -> list[str]:
    return [worker_id for worker_id in worker_ids if is_gone(worker_id)]


def _boot_id() -> str:
    """This start of the machine, and this container: pids mean nothing across either."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return "unknown"


def _started_at(pid: int) -> str:
    """In the kernel's own count. A process that has ended but was not collected counts as gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "gone"
    return "gone" if fields[0] in "ZX" else fields[19]
