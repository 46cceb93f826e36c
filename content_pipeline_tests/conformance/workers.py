"""Processes that work on a manifest like real ones, and can be stopped and killed like real ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection

from content_pipeline.errors import LostLease, RetryPolicy
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobFailure, JobResult
from content_pipeline_tests.conformance.manifests import database_of


def work_until_done(url: str, name: str, batch: int) -> None:
    """Claim and succeed until nothing waits."""
    manifest = Manifest(open_engine(url))
    while True:
        jobs = manifest.jobs.claim(ClaimRequest(name, batch))
        for job in jobs:
            manifest.jobs.succeed(job.lease, JobResult(results={"by": name}))
        if not jobs and manifest.jobs.counts()[State.PENDING] == 0:
            return


def claim_and_stop(url: str, lease_s: float, say: Connection) -> None:
    """Claim a job and stop like a machine put to sleep; when woken, try every write, and tell which were refused."""
    manifest = Manifest(open_engine(url), lease_s=lease_s)
    (job,) = manifest.jobs.claim(ClaimRequest("sleeper"))
    say.send(job.job_id)
    os.kill(os.getpid(), signal.SIGSTOP)
    lease = job.lease
    writes: dict[str, Callable[[], object]] = {
        "progress": lambda: manifest.jobs.report_progress(lease, {"percent": 99}),
        "run": lambda: manifest.jobs.report_run(lease, "late"),
        "publish": lambda: manifest.publications.under(lease).check_lease(),
        "succeed": lambda: manifest.jobs.succeed(lease, JobResult(results={"by": "sleeper"})),
        "fail": lambda: manifest.jobs.fail(lease, JobFailure("late", "late", RetryPolicy.PERMANENT)),
        "crashed": lambda: manifest.jobs.crashed(lease, "late"),
        "release": lambda: manifest.jobs.release(lease, "late"),
        "cancel": lambda: manifest.jobs.stop_cancelled(lease),
    }
    say.send({name: _is_refused(write) for name, write in writes.items()})
    say.send(sorted(manifest.jobs.renew("sleeper", [lease]).lost))


def _is_refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except LostLease:
        return True
    return False


def hold_a_transaction_open(url: str, say: Connection) -> None:
    """Change much and commit nothing, until killed."""
    manifest = Manifest(open_engine(url))
    with database_of(manifest).transaction() as tx:
        from content_pipeline.manifest import claim as claiming
        from content_pipeline.manifest import enqueue as intake
        from content_pipeline.manifest.model import JobRequest

        intake.enqueue(tx, [JobRequest(f"/lost/{number}", "/lost") for number in range(2000)])
        claiming.claim(tx, ClaimRequest("doomed", 50), 90.0)
        say.send("inside")
        signal.pause()


def crash_again_and_again(url: str, name: str, say: Connection) -> None:
    """Work as fast as possible; somebody will kill this."""
    manifest = Manifest(open_engine(url))
    say.send(name)
    while True:
        for job in manifest.jobs.claim(ClaimRequest(name, 3)):
            manifest.jobs.succeed(job.lease, JobResult())
