"""Dagster's side of the work: runs are created, executed in this process, and ended when nobody else will."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

import dagster as dg

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import (
    DATA_VERSION_TAG,
    JOB_TAG,
    OWNER_TAG,
    PARTITION_TAG,
    job_tag_of,
    owner_of,
)
from content_pipeline.errors import RunForgotten, UnknownJob
from content_pipeline.execution.job_kinds import HANDLERS
from content_pipeline.execution.messages import RunStatus
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.execution.run_context import RunContext, executing
from content_pipeline.execution.worker_identity import is_gone, this_worker, worker_of_run
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.rescue import RESCUED
from content_pipeline.settings import Settings

Compose = Callable[[Settings], dg.Definitions]

STATUSES = {
    dg.DagsterRunStatus.SUCCESS: RunStatus.SUCCEEDED,
    dg.DagsterRunStatus.FAILURE: RunStatus.FAILED,
    dg.DagsterRunStatus.CANCELED: RunStatus.CANCELLED,
}


class DagsterRuns:
    """`compose` builds what Dagster sees. Implements `execution.runs.RunBackend`."""

    def __init__(self, settings: Settings, compose: Compose) -> None:
        self._settings = settings
        self._compose = compose
        self._owner = this_worker()

    @cached_property
    def _definitions(self) -> dg.Definitions:
        return self._compose(self._settings)

    def job_definition(self, name: str) -> dg.JobDefinition:
        return self._definitions.resolve_job_def(name)

    def prepare(self) -> None:
        for handler in HANDLERS:
            if handler.needs_run:
                self.job_definition(handler.dagster_job)

    def create(self, job_name: str, partitions: str, partition_key: str, job_tag: str) -> DagsterRunHandle:
        instance = open_instance(self._settings)
        instance.add_dynamic_partitions(partitions, [partition_key])
        tags = {OWNER_TAG: self._owner, JOB_TAG: job_tag}
        run = internals.create_run(instance, self.job_definition(job_name), partition_key, tags)
        return DagsterRunHandle(self, instance, run)

    def find(self, run_id: str) -> DagsterRunHandle | None:
        instance = open_instance(self._settings)
        run = instance.get_run_by_id(run_id)
        if run is None:
            instance.dispose()
            return None
        return DagsterRunHandle(self, instance, run)

    # --- what is said of a run by somebody who does not execute it

    def announce_cancel(self, run_id: str) -> None:
        with open_instance(self._settings) as instance:
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished and run.status is not dg.DagsterRunStatus.CANCELING:
                instance.report_run_canceling(run)

    def terminated(self, run_ids: Collection[str]) -> frozenset[str]:
        if not run_ids:
            return frozenset()
        of_these = dg.RunsFilter(run_ids=list(run_ids), statuses=[dg.DagsterRunStatus.CANCELING])
        with open_instance(self._settings) as instance:
            return frozenset(run.run_id for run in instance.get_runs(of_these))

    def note(self, run_id: str, message: str) -> None:
        self._report(run_id, lambda instance, run: instance.report_engine_event(message, run))

    def end_as_failed(self, run_id: str, why: str) -> None:
        self._report(run_id, lambda instance, run: internals.report_worker_died(instance, run, why))

    def end_as_cancelled(self, run_id: str, why: str) -> None:
        self._report(run_id, lambda instance, run: instance.report_run_canceled(run, why))

    def _report(self, run_id: str, report: Callable[[dg.DagsterInstance, dg.DagsterRun], object]) -> None:
        """Of a run that has not ended; what has ended stays as it is."""
        with open_instance(self._settings) as instance:
            run = instance.get_run_by_id(run_id)
            if run is not None and not run.is_finished:
                report(instance, run)


class DagsterRunHandle:
    """A run and the records that it is in. Implements `execution.runs.RunHandle`."""

    def __init__(self, runs: DagsterRuns, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
        self._runs = runs
        self._instance = instance
        self._run = run

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def partition_key(self) -> str | None:
        return self._run.tags.get(PARTITION_TAG)

    @property
    def status(self) -> RunStatus:
        return STATUSES.get(self._run.status, RunStatus.UNFINISHED)

    def finished_stages(self) -> Mapping[str, str]:
        return finished_stages(self._instance, self.run_id) if self._run.status is dg.DagsterRunStatus.STARTED else {}

    def execute(self, run_context: RunContext) -> RunStatus:
        job = self._runs.job_definition(self._run.job_name)
        resume = self._run.status is dg.DagsterRunStatus.STARTED
        with executing(run_context):
            internals.execute(self._instance, job, self._run, run_context.reporter.alive, resume)
        ended = self._instance.get_run_by_id(self.run_id)
        if ended is None:
            raise RunForgotten(f"Dagster no longer knows the run {self.run_id}, which has just ended")
        return STATUSES.get(ended.status, RunStatus.UNFINISHED)

    def close(self) -> None:
        self._instance.dispose()


def finished_stages(instance: dg.DagsterInstance, run_id: str) -> Mapping[str, str]:
    """The assets that a run has recorded so far, and the keys of their artifacts."""
    records = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    made = [record.asset_materialization for record in records if record.asset_materialization is not None]
    return {one.asset_key.to_user_string(): str((one.tags or {}).get(DATA_VERSION_TAG)) for one in made}


class ExecutedRun:
    """The run that is executed in this process, by Dagster and not by a worker of ours.

    Implements `execution.self_claimed_run.RunRecord`.
    """

    def __init__(self, instance: dg.DagsterInstance, run_id: str) -> None:
        self._instance = instance
        self._run_id = run_id

    def finished_stages(self) -> Mapping[str, str]:
        return finished_stages(self._instance, self._run_id)

    def is_terminated(self) -> bool:
        run = self._instance.get_run_by_id(self._run_id)
        return run is not None and run.status is dg.DagsterRunStatus.CANCELING

    def claims(self, owner: str, job_tag: str) -> None:
        self._instance.add_run_tags(self._run_id, {OWNER_TAG: owner, JOB_TAG: job_tag})


def is_worked_on(run: dg.DagsterRun, manifest: Manifest) -> bool:
    """Whether a job is leased to this very run, on whichever host. A lease that ran out is taken away by a rescue."""
    return bool(manifest.jobs.list(JobFilter(run_id=run.run_id, status=State.RUNNING), limit=1))


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
        job = manifest.jobs.get(job_id)
    except UnknownJob:
        return False  # of another manifest, or cleared: nothing is known
    if owner == worker_of_run(run.run_id):  # it commits before it ends
        return any(one.number == attempt and one.outcome == RESCUED for one in manifest.jobs.attempts(job_id))
    return job.status is not State.RUNNING or job.claim_count != attempt
