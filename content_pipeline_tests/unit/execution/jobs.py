"""Active jobs for tests: real jobs of a real manifest in SQLite, and what their children said."""

from __future__ import annotations

from pathlib import Path

from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.assignment import Assignment
from content_pipeline.execution.messages import Message, RunStatus, StageFinished, WorkEnded
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobRequest
from content_pipeline.stage import VIDEO_STAGES

WORKER = "a worker"


def claimed(manifest: Manifest, name: str = "game.mp4", worker: str = WORKER) -> Job:
    manifest.jobs.enqueue([JobRequest(f"/games/{name}", "/games")])
    job = next(job for job in manifest.jobs.list() if job.subject.endswith(name))
    (found,) = manifest.jobs.claim(ClaimRequest(worker, job_ids=[job.job_id]))
    return found


def active(job: Job | None, *messages: Message, whole: bool = True) -> ActiveJob:
    subject = "a run" if job is None else job.subject
    found = ActiveJob.of(Assignment("a name", Path(subject), job, "a run" if job is None else None, whole=whole))
    for message in messages:
        found.receive(message)
    return found


def finished(stage: str, reused: bool = False) -> StageFinished:
    cost = {"wall_s": 1.0, "cpu_s": 1.0, "reused": reused}
    return StageFinished(stage, f"key of {stage}", reused, {}, {f"/output/{stage}": "sha"}, (), (), cost)


ALL_FINISHED = tuple(finished(stage) for stage in VIDEO_STAGES)
SUCCEEDED = WorkEnded(RunStatus.SUCCEEDED, "quick", "full")
