"""Execute one job here and now, without a run: for a command that waits for its result."""

from __future__ import annotations

from pathlib import Path

from content_pipeline.execution.assignment import Assignment, log_path
from content_pipeline.execution.job_executor import JobExecutor
from content_pipeline.execution.job_settings import settings_of
from content_pipeline.execution.outcome import Outcome, Watcher
from content_pipeline.execution.runs import NoRuns
from content_pipeline.execution.worker_registration import COMMAND
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.settings import Settings


def execute_claimed(job: Job, settings: Settings, manifest: Manifest, watcher: Watcher, cores: int) -> Outcome:
    """In a child of this process, under the lease that the job was claimed with; interrupted, it is given back."""
    outcomes: list[Outcome] = []
    executor = JobExecutor(
        settings, manifest, NoRuns(), 1, watcher, lambda _active, outcome: outcomes.append(outcome), role=COMMAND
    )
    try:
        assignment = Assignment(job.job_id, Path(job.subject), job, partition_key=job.video_key, cores=cores)
        log = log_path(settings, f"{job.job_id}-{job.claim_count}")
        executor.start(assignment, settings_of(job, settings), NoRuns(), log)
        while executor.active:
            executor.poll()
        executor.end()
    except BaseException:
        executor.drain()
        raise
    return outcomes[0]
