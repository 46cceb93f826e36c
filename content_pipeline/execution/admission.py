"""Whether a launched run may work on its video: it claims the video's job first, like everybody else.

A run is one delivery of one attempt. It may be late, doubled, or started by hand beside a worker: whatever it
is, the job's lease decides, and a run that does not get it ends without having touched anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from content_pipeline.execution.launch import Launch
from content_pipeline.execution.names import PROCESS_VIDEO, parse_job_tag
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.execution.worker_identity import is_gone
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobRequest
from content_pipeline.manifest.transitions import UnknownJob
from content_pipeline.stage import VIDEO_STAGES

BY_HAND = "a run was started by hand"


@dataclass(frozen=True)
class Admitted:
    """`job` is None for a run that is about no video."""

    job: Job | None


@dataclass(frozen=True)
class Refused:
    """`needless`: nothing is wrong, there is just nothing left to do."""

    why: str
    needless: bool = False


@dataclass(frozen=True)
class NotYet:
    why: str


Decision = Admitted | Refused | NotYet


def is_about_a_video(launch: Launch) -> bool:
    if launch.partition_key is None:
        return False
    return launch.job_name == PROCESS_VIDEO or bool(set(launch.assets) & set(VIDEO_STAGES))


def is_whole(launch: Launch) -> bool:
    """All stages of the video, not some that a person picked."""
    return set(launch.assets) >= set(VIDEO_STAGES) or (launch.job_name == PROCESS_VIDEO and not launch.assets)


def admit(launch: Launch, manifest: Manifest, worker_id: str, hash_of: Callable[[Job], str]) -> Decision:
    if not is_about_a_video(launch):
        return Admitted(None)
    request = ClaimRequest(worker_id, config_hash_of=hash_of)
    if launch.job_tag is not None:
        job_id, attempt = parse_job_tag(launch.job_tag)
        why = _why_needless(_current(manifest, job_id), attempt, carried_before=launch.worker is not None)
        if why is not None:
            return Refused(why, needless=True)
        claimed = manifest.jobs.claim(replace(request, job_ids=[job_id]))
        return (
            Admitted(claimed[0]) if claimed else NotYet("its job is waiting: work is paused, or the job is not due yet")
        )
    wanted = _asked_for_by_hand(launch, manifest)
    if isinstance(wanted, Refused):
        return wanted
    if manifest.breakers.all():
        manifest.breakers.close()  # a person asks for it: try at once, and pause again if need be
    claimed = manifest.jobs.claim(replace(request, job_ids=[wanted.job_id], ignore_backoff=True))
    return Admitted(claimed[0]) if claimed else NotYet("another worker claimed it first")


def _current(manifest: Manifest, job_id: str) -> Job | None:
    """The job, brought back first if whoever holds it is gone."""
    try:
        job = manifest.jobs.get(job_id)
        if job.worker_id is not None and is_gone(job.worker_id):
            rescue_orphans(manifest)
            job = manifest.jobs.get(job_id)
    except UnknownJob:
        return None
    return job


def _why_needless(job: Job | None, attempt: int, carried_before: bool) -> str | None:
    """Why a run that delivers an attempt of a job is not needed any more; None when it is."""
    if job is None:
        return "its job was removed"
    if job.status is State.RUNNING:
        return f"the job {job.job_id} is being processed by run {job.run_id}"
    if job.status not in CLAIMABLE:
        return f"the job {job.job_id} is already {job.status}"
    if not carried_before and job.claim_count + 1 != attempt:
        return f"attempt {attempt} of the job {job.job_id} was made by another run"
    return None


def _asked_for_by_hand(launch: Launch, manifest: Manifest) -> Job | Refused:
    key = str(launch.partition_key)
    jobs = manifest.jobs.list(JobFilter(video_key=key))
    current = [again for job in jobs if (again := _current(manifest, job.job_id)) is not None]
    if not current:
        return _enqueued(key, manifest)
    running = next((job for job in current if job.status is State.RUNNING), None)
    if running is not None:
        return Refused(
            f"{key} is already being processed by run {running.run_id} (worker {running.worker_id}); "
            f"wait for it, or stop it with `content-ai queue cancel {running.job_id}`"
        )
    job = current[0]
    if job.status in (State.CANCELLED, State.DISCARDED) and not is_whole(launch):
        return Refused(f"{key} is {job.status}; run `content-ai queue resume {job.job_id}` first")
    job_filter = JobFilter(job_ids=[job.job_id], if_possible=True)
    match job.status:
        case State.SUCCEEDED:
            manifest.jobs.mark_dirty(job_filter, BY_HAND)
        case State.FAILED:
            manifest.jobs.retry(job_filter, BY_HAND)
        case State.CANCELLED | State.DISCARDED:
            manifest.jobs.resume(job_filter)
    return job


def _enqueued(key: str, manifest: Manifest) -> Job | Refused:
    """The job of a video that is known but has none: it was cleared, or never enqueued."""
    paths = manifest.videos.with_key(key)
    if not paths:
        return Refused(f"no file is known for the video {key}; watch its folder, or run `content-ai process` on it")
    manifest.jobs.enqueue([JobRequest(str(paths[0].path), str(paths[0].root), video_key=key)])
    job = manifest.jobs.find(PROCESSING, str(paths[0].path))
    return Refused(f"the job of {key} was removed at this moment; try again") if job is None else job
