"""Runs without a daemon: created and executed in warm children of this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dagster as dg

from content_pipeline.defs.jobs import PROCESS_VIDEO
from content_pipeline.defs.partitions import VIDEOS
from content_pipeline.defs.reporting import Carrier
from content_pipeline.launcher import _dagster_internals as internals
from content_pipeline.launcher.home import open_instance
from content_pipeline.settings import Settings
from content_pipeline.workers.identity import is_gone, this_worker

OWNER_TAG = "content-ai/owner"
JOB_TAG = "content-ai/job"

BuildJob = Callable[[Carrier], dg.JobDefinition]

UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]


class EmbeddedRuns:
    """`build_job` composes `process_video` for whoever carries it. Every process opens its own instance."""

    def __init__(self, settings: Settings, build_job: BuildJob) -> None:
        self._settings = settings
        self._build_job = build_job
        self._job = build_job(Carrier())
        self._owner = this_worker()

    def register(self, video_keys: list[str]) -> None:
        """Make videos partitions."""
        with open_instance(self._settings) as instance:
            instance.add_dynamic_partitions(str(VIDEOS.name), video_keys)

    def close_abandoned(self) -> int:
        """End the runs whose process is gone, so that none stays started for ever."""
        with open_instance(self._settings) as instance:
            runs = instance.get_runs(dg.RunsFilter(job_name=PROCESS_VIDEO, statuses=UNFINISHED))
            abandoned = [run for run in runs if is_gone(run.tags.get(OWNER_TAG, ""))]
            for run in abandoned:
                internals.report_worker_died(instance, run, "The process that carried this run is gone.")
            return len(abandoned)

    def create(self, instance: dg.DagsterInstance, video_key: str, job_tag: str) -> dg.DagsterRun:
        instance.add_dynamic_partitions(str(VIDEOS.name), [video_key])
        return internals.create_run(instance, self._job, video_key, {OWNER_TAG: self._owner, JOB_TAG: job_tag})

    def execute(self, instance: dg.DagsterInstance, run: dg.DagsterRun, carrier: Carrier) -> dg.DagsterRunStatus:
        internals.execute(instance, self._build_job(carrier), run)
        ended = instance.get_run_by_id(run.run_id)
        return dg.DagsterRunStatus.FAILURE if ended is None else ended.status

    def announce_cancel(self, run_id: str) -> None:
        """Tell Dagster that a run is about to be stopped on purpose; unannounced, it would count as a failure."""
        with open_instance(self._settings) as instance:
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished:
                instance.report_run_canceling(run)

    def child_died(self, run_id: str, how: str) -> None:
        with open_instance(self._settings) as instance:
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished:
                internals.report_worker_died(instance, run, f"The worker process was {how}.")

    def log_path(self, name: str) -> Path:
        return self._settings.state_dir.absolute() / "logs" / f"{name}.log"
