"""Who a worker is, and whether it is still alive. In one place a dead process is known at once."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from content_pipeline.system import process_identity
from content_pipeline.system.process_identity import ProcessIdentity


def this_worker() -> str:
    return str(process_identity.this_process())


def worker_of_run(run_id: str) -> str:
    """A run that claims its job by itself, in however many processes its steps are executed, on whichever hosts.

    No process stands for all of it: whether it lives, only its lease tells.
    """
    return f"run:{run_id}"


def is_gone(worker_id: str) -> bool:
    """Only a process of this boot and this namespace is ever called gone; of others the lease decides."""
    process = ProcessIdentity.parse(worker_id)
    return process is not None and process_identity.is_gone(process, process_identity.here())


def gone_among(worker_ids: Iterable[str]) -> list[str]:
    return [worker_id for worker_id in worker_ids if is_gone(worker_id)]


def is_awake(worker_id: str) -> bool:
    """Whether it is known to live here, and was not stopped."""
    process = ProcessIdentity.parse(worker_id)
    return process is not None and process_identity.is_awake(process)


def is_in_this_place(worker_id: str) -> bool:
    """Whether its pid and its clock mean here what they mean to it."""
    process = ProcessIdentity.parse(worker_id)
    return process is not None and process.place is not None and process.place == process_identity.here()


def send_signal(worker_id: str, number: signal.Signals) -> bool:
    """To this very worker, or to nobody: a pid from a file may be another process's by now, or elsewhere."""
    process = ProcessIdentity.parse(worker_id)
    return process is not None and process_identity.send_signal(process, number)
