"""Bringing back jobs whose worker is gone, without taking them from one that only looks late."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from content_pipeline.errors import UnknownJob
from content_pipeline.execution.worker_identity import gone_among, is_awake, is_gone
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job

LAST_CHANCE_S = 3.0


def current_job(manifest: Manifest, job_id: str) -> Job | None:
    """The job, brought back first if its worker is gone; None if it was removed."""
    try:
        job = manifest.jobs.get(job_id)
        if job.worker_id is not None and is_gone(job.worker_id):
            rescue_orphans(manifest)
            job = manifest.jobs.get(job_id)
    except UnknownJob:
        return None
    return job


def rescue_orphans(manifest: Manifest) -> list[Job]:
    """Jobs whose worker is dead, or has been silent for longer than its lease.

    When the clock was set, or the machine slept, all leases are overdue at one moment: a worker that is awake here
    gets a little time to renew its own. One that is stopped, or lives elsewhere, gets none: its lease has decided.
    """
    late = {worker for worker in manifest.jobs.overdue_workers() if is_awake(worker)}
    last_chance_s = time.monotonic() + LAST_CHANCE_S
    while late and time.monotonic() < last_chance_s:
        time.sleep(0.1)
        late &= set(manifest.jobs.overdue_workers())
    return manifest.jobs.rescue(gone_among(manifest.jobs.workers()))


@dataclass(frozen=True)
class Moment:
    """A moment on two clocks: one that nobody sets, and the one by which leases end."""

    monotonic_s: float = field(default_factory=time.monotonic)
    wall_s: float = field(default_factory=time.time)

    def is_past(self, seconds: float) -> bool:
        """Whether so much time has gone by, by either clock: after a sleep a lease is to be renewed at once."""
        return max(time.monotonic() - self.monotonic_s, time.time() - self.wall_s) >= seconds
