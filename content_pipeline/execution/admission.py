"""Whether a launched run may work: it claims the job that it is about first, like everybody else.

A run is one delivery of one attempt. It may be late, doubled, or started by hand beside a worker: whatever it
is, the job's lease decides, and a run that does not get it ends without having touched anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from content_pipeline.execution.job_kinds import JobKindHandler, handler_of_launch
from content_pipeline.execution.job_kinds.handler import Refused, is_under_way
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.execution.rescue import current_job
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job
from content_pipeline.manifest.requirements import met_by
from content_pipeline.settings import Settings

WAITING = "its job is waiting: work is paused, or the job is not due yet"
NOT_CLAIMED = "work is paused, or another worker claimed it first"


@dataclass(frozen=True)
class Admitted:
    """`job` is None for a run that is about no job."""

    job: Job | None


@dataclass(frozen=True)
class NotYet:
    """`requires`: the capability that this worker lacks; others may have it."""

    why: str
    requires: str | None = None


@dataclass(frozen=True)
class UnderWay:
    """The job names this very run: another process of it has claimed the job, and has its lease."""

    job: Job


Decision = Admitted | Refused | NotYet | UnderWay


@dataclass(frozen=True)
class Admission:
    """Who admits runs, and with which settings they were launched."""

    manifest: Manifest
    worker_id: str
    settings: Settings
    config_hash_of: Callable[[Job], str | None]

    def admit(self, launch: Launch) -> Decision:
        handler = handler_of_launch(launch)
        if handler is None:
            return Admitted(None)
        request = ClaimRequest(
            self.worker_id,
            kind=handler.kind,
            config_hash_of=self.config_hash_of,
            run_id=launch.run_id,
            requirements=met_by(self.settings.queue.capabilities),
        )
        if launch.job_tag is None:
            return self._admit_by_hand(launch, handler, request)
        job_id, attempt = parse_job_tag(launch.job_tag)
        job = current_job(self.manifest, job_id)
        if job is not None and is_under_way(job, launch):
            return UnderWay(job)
        why = _why_needless(job, attempt, executed_before=launch.worker is not None)
        if why is not None:
            return Refused(why, needless=True)
        claimed = self.manifest.jobs.claim(replace(request, job_ids=[job_id]))
        return Admitted(claimed[0]) if claimed else self._not_yet(job, request, WAITING)

    def _admit_by_hand(self, launch: Launch, handler: JobKindHandler, request: ClaimRequest) -> Decision:
        job = handler.job_by_hand(launch, self.settings, self.manifest)
        if isinstance(job, Refused):
            return job
        if is_under_way(job, launch):
            return UnderWay(job)
        claimed = self.manifest.jobs.claim(replace(request, job_ids=[job.job_id], ignore_backoff=True))
        return Admitted(claimed[0]) if claimed else self._not_yet(job, request, NOT_CLAIMED)

    def _not_yet(self, job: Job | None, request: ClaimRequest, otherwise: str) -> NotYet:
        """A job that this worker cannot do, or whose files this host does not see, waits for another one."""
        if job is None:
            return NotYet(otherwise)
        if request.requirements is not None and job.requires not in request.requirements:
            return NotYet(f"its job requires {job.requires}, and this worker cannot do that", job.requires)
        elsewhere = self.manifest.roots.why_not_here(job)
        return NotYet(otherwise if elsewhere is None else elsewhere)


def _why_needless(job: Job | None, attempt: int, executed_before: bool) -> str | None:
    """Why a run that delivers an attempt of a job is not needed any more; None when it is."""
    if job is None:
        return "its job was removed"
    if job.status is State.RUNNING:
        return f"the job {job.job_id} is being processed by run {job.run_id}"
    if job.status not in CLAIMABLE:
        return f"the job {job.job_id} is already {job.status}"
    if not executed_before and job.claim_count + 1 != attempt:
        return f"attempt {attempt} of the job {job.job_id} was made by another run"
    return None
