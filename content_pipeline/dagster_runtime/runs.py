"""Dagster's side of the work: runs are created, executed in this process, and ended when nobody else will."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import dagster as dg

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import (
    DATA_VERSION_TAG,
    JOB_TAG,
    OWNER_TAG,
    PROCESS_VIDEO,
    VIDEO_PARTITIONS,
    job_tag_of,
    owner_of,
    parse_job_tag,
)
from content_pipeline.errors import RunForgotten
from content_pipeline.execution.run_context import RunContext, executing
from content_pipeline.execution.worker_identity import is_gone, this_worker
from content_pipeline.launchers.local.launch_queue import LaunchQueue, launch_of
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.manifest.transitions import UnknownJob
from content_pipeline.settings import Settings

Compose = Callable[[Settings], dg.Definitions]

SPOOLING_S = 10.0
LAUNCHED = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, *LAUNCHED]


class Runs:
    """`compose` builds what Dagster sees. Every process opens its own instance."""

    def __init__(self, settings: Settings, compose: Compose) -> None:
        self._settings = settings
        self._compose = compose
        self._owner = this_worker()

    @cached_property
    def _definitions(self) -> dg.Definitions:
        return self._compose(self._settings)

    def prepare(self) -> None:
        """Build once, before children are forked, what each of them needs."""
        self._definitions.resolve_job_def(PROCESS_VIDEO)

    def create(self, instance: dg.DagsterInstance, video_key: str, job_tag: str) -> dg.DagsterRun:
        """A run that this process executes itself."""
        instance.add_dynamic_partitions(VIDEO_PARTITIONS, [video_key])
        tags = {OWNER_TAG: self._owner, JOB_TAG: job_tag}
        job = self._definitions.resolve_job_def(PROCESS_VIDEO)
        return internals.create_run(instance, job, video_key, tags)

    def execute(self, instance: dg.DagsterInstance, run: dg.DagsterRun, run_context: RunContext) -> dg.DagsterRunStatus:
        """Execute a run here; one that was started before goes on after the steps that it finished."""
        job = self._definitions.resolve_job_def(run.job_name)
        resume = run.status is dg.DagsterRunStatus.STARTED
        with executing(run_context):
            internals.execute(instance, job, run, run_context.reporter.alive, resume)
        ended = instance.get_run_by_id(run.run_id)
        if ended is None:
            raise RunForgotten(f"Dagster no longer knows the run {run.run_id}, which has just ended")
        return ended.status

    def finished_stages(self, instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[str, str]:
        """The stages that this run has materialized, and their keys."""
        if run.status is not dg.DagsterRunStatus.STARTED:
            return {}
        records = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
        made = [record.asset_materialization for record in records if record.asset_materialization is not None]
        return {one.asset_key.to_user_string(): str((one.tags or {}).get(DATA_VERSION_TAG)) for one in made}

    # --- what is said of a run by somebody who does not execute it

    def close_abandoned(self) -> int:
        """End the runs whose process is gone, so that none stays started for ever."""
        with open_instance(self._settings) as instance:
            launch_queue = LaunchQueue(Path(instance.root_directory))
            return close_abandoned(instance, launch_queue, open_manifest(self._settings), UNFINISHED)

    def adopt(self, launch_queue: LaunchQueue) -> None:
        """Runs that were launched and are in nobody's hands: whoever launched them died before saying so."""
        with open_instance(self._settings) as instance:
            adopt(instance, launch_queue)

    def announce_cancel(self, run_id: str) -> None:
        """Tell Dagster that a run is about to be stopped on purpose; unannounced, it would count as a failure."""
        with open_instance(self._settings) as instance:
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished and run.status is not dg.DagsterRunStatus.CANCELING:
                instance.report_run_canceling(run)

    def note(self, run_id: str, message: str) -> None:
        self._say(run_id, lambda instance, run: instance.report_engine_event(message, run))

    def end_as_failed(self, run_id: str, why: str) -> None:
        self._say(run_id, lambda instance, run: internals.report_worker_died(instance, run, why))

    def end_as_cancelled(self, run_id: str, why: str) -> None:
        self._say(run_id, lambda instance, run: instance.report_run_canceled(run, why))

    def _say(self, run_id: str, say: Callable[[dg.DagsterInstance, dg.DagsterRun], object]) -> None:
        """Of a run that has not ended; what has ended stays as it is."""
        with open_instance(self._settings) as instance:
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished:
                say(instance, run)


def adopt(instance: dg.DagsterInstance, launch_queue: LaunchQueue) -> int:
    """What was launched a moment ago may still be on its way into the spool."""
    launched = [*LAUNCHED, dg.DagsterRunStatus.CANCELING]
    before = datetime.now(UTC) - timedelta(seconds=SPOOLING_S)
    runs = instance.get_runs(dg.RunsFilter(statuses=launched, updated_before=before))
    known = launch_queue.run_ids()
    strays = [run for run in runs if run.run_id not in known and owner_of(run.tags) is None]
    for run in strays:
        launch_queue.add(launch_of(run))
        if run.status is dg.DagsterRunStatus.CANCELING:
            launch_queue.ask_to_stop(run.run_id)
    return len(strays)


def close_abandoned(
    instance: dg.DagsterInstance, launch_queue: LaunchQueue, manifest: Manifest, statuses: Sequence[dg.DagsterRunStatus]
) -> int:
    """End the runs whose process is gone, unless a supervisor goes on with them."""
    runs = instance.get_runs(dg.RunsFilter(job_name=PROCESS_VIDEO, statuses=list(statuses)))
    carried = launch_queue.run_ids()
    abandoned = [run for run in runs if run.run_id not in carried and is_abandoned(run, manifest)]
    for run in abandoned:
        internals.report_worker_died(instance, run, "The process that executed this run is gone.")
    return len(abandoned)


def is_abandoned(run: dg.DagsterRun, manifest: Manifest) -> bool:
    """Whether the process that executes a run by itself is gone, or has lost the job that the run is about.

    Of a process of another machine, or of before a reboot, only its lease tells.
    """
    owner, tag = owner_of(run.tags), job_tag_of(run.tags)
    if owner is None:
        return False
    if is_gone(owner) or tag is None:
        return is_gone(owner)
    job_id, attempt = parse_job_tag(tag)
    try:
        job = manifest.get(job_id)
    except UnknownJob:
        return False  # of another manifest, or cleared: nothing is known
    return job.status is not State.RUNNING or job.claim_count != attempt
