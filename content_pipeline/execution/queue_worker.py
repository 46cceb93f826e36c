"""A worker without a daemon: claims jobs from the manifest and executes them until nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.assignment import Assignment, log_path
from content_pipeline.execution.job_executor import JobExecutor
from content_pipeline.execution.job_settings import JobSettings, settings_of
from content_pipeline.execution.outcome import Outcome, Watcher
from content_pipeline.execution.runs import MakeRuns
from content_pipeline.execution.warm_up import HEAVY, keep_shared, warm
from content_pipeline.execution.worker_registration import COMMAND
from content_pipeline.failpoints import failpoint
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.breaker import Breaker
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job
from content_pipeline.manifest.requirements import met_by, unmet
from content_pipeline.settings import Settings

CLAIM_FROM = 100
INTERRUPTED = "interrupted; the next call continues it"


class Worker:
    def __init__(self, settings: Settings, manifest: Manifest, make_runs: MakeRuns, watcher: Watcher) -> None:
        self._settings = settings
        self._manifest = manifest
        self._runs = make_runs(settings)
        self._of_jobs = JobSettings(make_runs)
        self._watcher = watcher
        slots = settings.worker_count
        self._executor = JobExecutor(settings, manifest, self._runs, slots, watcher, self._ended, role=COMMAND)
        self._requirements = met_by(settings.queue.capabilities)
        self._waiting: list[str] | None = None

    def work(
        self,
        job_ids: Iterable[str] | None,
        max_jobs: int | None,
        paused: Callable[[], Sequence[Breaker]],
        is_to_stop: Callable[[], bool],
    ) -> bool:
        """Until every named job (or every job there is) has ended, is another worker's, or waits for a pause.

        False when it was to stop before: what was not done is given back.
        """
        if is_to_stop():
            return False
        self._waiting = None if job_ids is None else list(job_ids)
        left = max_jobs
        if self._waiting is None or len(self._waiting) > 1:
            warm(HEAVY)
        self._of_jobs.runs_with(self._settings)
        keep_shared()
        try:
            while not is_to_stop():
                left = self._fill(left)
                if not self._executor.active and (left == 0 or not self._has_more(paused())):
                    self._executor.end()
                    return True
                self._executor.poll()
        except BaseException:
            self._give_back()
            raise
        self._give_back()
        return False

    def _give_back(self) -> None:
        for active in self._executor.drain():
            self._watcher.ended(active.outcome(str(State.PENDING), note=INTERRUPTED))

    def _fill(self, left: int | None) -> int | None:
        while self._executor.has_room and left != 0:
            claimed = self._claim()
            if claimed is None:
                return left
            failpoint("claimed")
            self._start(claimed)
            left = None if left is None else left - 1
        return left

    def _claim(self) -> Job | None:
        """The next job that is due; of named ones, a window at a time."""
        request = ClaimRequest(
            self._executor.id,
            config_hash_of=lambda job: self._of_jobs.hash_of(job, self._settings),
            requirements=self._requirements,
        )
        claim, retry = self._manifest.jobs.claim, self._executor.with_database_retry
        if self._waiting is None:
            return next(iter(retry(partial(claim, request))), None)
        for start in range(0, len(self._waiting), CLAIM_FROM):
            window = self._waiting[start : start + CLAIM_FROM]
            if claimed := retry(partial(claim, replace(request, job_ids=window))):
                self._waiting.remove(claimed[0].job_id)
                return claimed[0]
        return None

    def _has_more(self, paused: Sequence[Breaker]) -> bool:
        """Whether jobs are left that can still be claimed, now or after their back-off, and that no pause holds up."""
        if self._waiting is not None:
            waiting = self._manifest.jobs.list(JobFilter(job_ids=self._waiting))
            left = [job for job in waiting if job.status in CLAIMABLE and job.requires in self._requirements]
            self._waiting = [job.job_id for job in left]
        elif not paused:
            counts = self._manifest.jobs.counts()
            for_others = unmet(self._manifest.jobs.waiting_requirements(), frozenset(self._settings.queue.capabilities))
            return sum(counts[state] for state in CLAIMABLE) > sum(for_others.values())
        else:
            queued = [JobFilter(kind=PROCESSING, status=state) for state in CLAIMABLE]
            found = [job for job_filter in queued for job in self._manifest.jobs.list(job_filter)]
            left = [job for job in found if job.requires in self._requirements]
        return any(not any(breaker.blocks(job.library, job.error_code) for breaker in paused) for job in left)

    def _start(self, job: Job) -> None:
        settings = settings_of(job, self._settings)
        assignment = Assignment(job.job_id, Path(job.subject), job, partition_key=job.video_key, cores=self._cores())
        log = log_path(self._settings, f"{job.job_id}-{job.claim_count}")
        self._executor.start(assignment, settings, self._of_jobs.runs_with(settings), log)

    def _cores(self) -> int:
        """How many cores a child may use: all of them for the last video of a batch."""
        slots = self._settings.worker_count
        at_work = slots if self._waiting is None else min(slots, len(self._executor.active) + 1 + len(self._waiting))
        return max(1, slots // max(1, at_work))

    def _ended(self, active: ActiveJob, outcome: Outcome) -> None:
        run_id = active.report.run_id
        if run_id is not None and active.report.ended is None:  # its process did not live to end it
            if active.is_stopped:
                self._runs.end_as_cancelled(run_id, "The worker process had to be killed.")
            else:
                why = outcome.error if outcome.error is not None else "The worker process died."
                self._runs.end_as_failed(run_id, why)
        if outcome.status == State.PENDING and self._waiting is not None:
            self._waiting.append(active.name)  # it comes back after its back-off
        self._watcher.ended(outcome)
