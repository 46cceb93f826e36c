"""`content-ai worker list`: the workers on every host, and what each does."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import lasting, print_document, print_result
from content_pipeline.cli.queue.options import queue_options, settings_with_note
from content_pipeline.errors import printable
from content_pipeline.services import workers
from content_pipeline.services.workers import WorkerDocument, WorkerJob, WorkerList


@click.command("list")
@queue_options
def list_workers(as_json: bool, **given: Any) -> int:
    """List the workers on every host that shares the manifest: what each does, and when it last spoke."""
    document = workers.list_workers(settings_with_note(given))
    print_document(document) if as_json else _print(document)
    return 0


def _print(document: WorkerList) -> None:
    for worker in document.workers:
        print_result(_line(worker, document))
        for job in worker.jobs:
            print_result(f"    {_job_line(job)}")
    if not document.workers:
        print_result("No worker is running.")
    for sentence in workers.describe_unmet(document.unmet):
        print_result(f"Waiting: {sentence}")


def _line(worker: WorkerDocument, document: WorkerList) -> str:
    who = worker.worker_id if worker.host is None else f"{worker.host} pid {worker.pid}"
    version = "unknown version" if worker.version is None else f"version {worker.version}"
    spoke = "never" if worker.silent_s is None else f"{lasting(max(0.0, worker.silent_s))} ago"
    since = "" if worker.since is None else f", for {lasting(max(0.0, (document.at - worker.since).total_seconds()))}"
    can = f", can {', '.join(worker.capabilities)}" if worker.capabilities else ""
    return f"{worker.state:<6} {printable(who)}  {worker.role}, {version}{can}{since}, last heartbeat {spoke}"


def _job_line(job: WorkerJob) -> str:
    stage = "starting" if job.stage is None else job.stage
    percent = "" if job.percent is None else f" {job.percent:.0f} %"
    left = "" if job.lease_left_s is None else f", lease {_left(job.lease_left_s)}"
    return f"{job.job_id}  {stage}{percent}{left}  {printable(job.subject)}"


def _left(seconds: float) -> str:
    return f"for {lasting(seconds)} more" if seconds >= 0 else f"over since {lasting(-seconds)}"
