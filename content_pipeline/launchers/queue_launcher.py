"""A run launcher that puts each run into a launch queue: what all launchers of this program share.

Whatever else works with launched runs asks for the launcher that `dagster.yaml` names (`launcher_of`), and knows no
more of it than this.
"""

from __future__ import annotations

import contextlib
import os
import time
from abc import abstractmethod
from pathlib import Path

import dagster as dg

from content_pipeline.dagster_runtime.instance import home_of
from content_pipeline.dagster_runtime.names import (
    PARTITION_TAG,
    PRIORITY_TAG,
    QUEUE_TAG,
    job_tag_of,
    owner_of,
    queue_of,
)
from content_pipeline.dagster_runtime.private_api import (
    CheckRunHealthResult,
    LaunchRunContext,
    ResumeRunContext,
    RunLauncher,
    WorkerStatus,
)
from content_pipeline.dagster_runtime.runs import is_abandoned, is_worked_on
from content_pipeline.errors import UnknownJob
from content_pipeline.execution.job_kinds import handler_of_launch
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.manifest_identity import current_database
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.launchers.launch_queue import LaunchQueue
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import CONFIG_FILE_NAME, ENV_PREFIX, load
from content_pipeline.settings.run_overrides import RunOverrides
from content_pipeline.settings.value_types import expand_home

SECRET_VARIABLES = frozenset({f"{ENV_PREFIX}DB", f"{ENV_PREFIX}REDIS_URL"})  # they may hold a password
EXECUTED_BEFORE = "another worker, before"


class QueueRunLauncher(RunLauncher):
    """Loaded by the webserver, the daemon and the CLI; it keeps nothing in memory, so that any of them may die."""

    @property
    @abstractmethod
    def launch_queue(self) -> LaunchQueue:
        """The runs that were launched and have not ended."""

    @abstractmethod
    def start_workers(self) -> None:
        """See to it that somebody executes what is in the queue. Returns at once; called again and again."""

    @abstractmethod
    def has_workers(self) -> bool:
        """Whether anybody lives who executes what is in the queue."""

    @abstractmethod
    def health_of(self, launch: Launch) -> CheckRunHealthResult:
        """Of a run that is in the queue. Dead only when that is sure."""

    # --- launching

    def launch_run(self, context: LaunchRunContext) -> None:
        self._hand_over(context.dagster_run)

    @property
    def supports_resume_run(self) -> bool:
        return True

    def resume_run(self, context: ResumeRunContext) -> None:
        """The steps that ended are not done again; a run that is being carried is left alone."""
        self._hand_over(context.dagster_run)

    def _hand_over(self, run: dg.DagsterRun) -> None:
        enqueue(self._instance, self.launch_queue, run)
        self.start_workers()
        self._instance.report_engine_event(f"Handed to the workers of {home_of(self._instance)}.", run)

    # --- stopping

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        if run.status is not dg.DagsterRunStatus.CANCELING:
            self._instance.report_run_canceling(run)
        if self.launch_queue.get(run_id) is None and self._is_elsewhere(run):
            self._terminate_elsewhere(run)
            return True
        if self.launch_queue.get(run_id) is None:
            enqueue(self._instance, self.launch_queue, run)
        self.launch_queue.ask_to_stop(run_id)
        self.start_workers()
        return True

    def _is_elsewhere(self, run: dg.DagsterRun) -> bool:
        """Whether a run executes itself, or was launched by another host."""
        return owner_of(run.tags) is not None or queue_of(run.tags) not in (None, self.launch_queue.id)

    def _terminate_elsewhere(self, run: dg.DagsterRun) -> None:
        """It is stopped through its job, wherever it is: whoever works on it sees that with its next heartbeat.

        A run that is about no job is stopped by the supervisor of its own host, which sees it in Dagster's records.
        """
        if handler_of_launch(launch_of(run)) is None:
            return
        manifest = open_manifest(load().settings)
        if is_worked_on(run, manifest):
            manifest.jobs.cancel(JobFilter(run_id=run.run_id, status=State.RUNNING, if_possible=True))
            return
        tag = job_tag_of(run.tags)
        if tag is not None:
            _cancel_waiting(parse_job_tag(tag)[0], manifest)
        self._instance.report_run_canceled(run, "No process executes this run.")

    # --- looking

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Dead only when that is sure: a run that is not known to be lost is left alone."""
        launch = self.launch_queue.get(run.run_id)
        return self._health_elsewhere(run) if launch is None else self.health_of(launch)

    def _health_elsewhere(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        if self._may_live_elsewhere(run):
            return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=owner_of(run.tags))
        again = self._instance.get_run_by_id(run.run_id)
        if again is None or again.is_finished:  # it ended between two looks
            return CheckRunHealthResult(WorkerStatus.SUCCESS)
        return CheckRunHealthResult(WorkerStatus.FAILED, "no process executes this run")

    def _may_live_elsewhere(self, run: dg.DagsterRun) -> bool:
        """Where no process can be asked after, the lease of the run's job tells."""
        owner, queue = owner_of(run.tags), queue_of(run.tags)
        if owner is not None:
            return not is_abandoned(run, open_manifest(load().settings))
        if queue is None or queue == self.launch_queue.id:
            return queue is None  # launched by none of ours: Dagster executes it, and it has not claimed its job yet
        is_about_a_job = handler_of_launch(launch_of(run)) is not None
        return not is_about_a_job or is_worked_on(run, open_manifest(load().settings))

    def join(self, timeout: int = 30) -> None:
        """Wait until nothing is launched any more."""
        deadline = time.monotonic() + timeout
        while self.launch_queue.run_ids() and time.monotonic() < deadline:
            time.sleep(0.1)


def launcher_of(instance: dg.DagsterInstance) -> QueueRunLauncher | None:
    """The launcher that `dagster.yaml` names; None when it is one of Dagster's own, which looks after its runs."""
    launcher = instance.run_launcher
    return launcher if isinstance(launcher, QueueRunLauncher) else None


def enqueue(instance: dg.DagsterInstance, launch_queue: LaunchQueue, run: dg.DagsterRun) -> None:
    """Put a run into a launch queue. Dagster's records say which: whoever has another queue leaves the run alone."""
    instance.add_run_tags(run.run_id, {QUEUE_TAG: launch_queue.id})
    launch_queue.add(launch_of(run))


def _cancel_waiting(job_id: str, manifest: Manifest) -> None:
    """A run that is terminated before anybody works on it takes its job along, unless that is another run's by now."""
    with contextlib.suppress(UnknownJob):
        if manifest.jobs.get(job_id).status in CLAIMABLE:
            manifest.jobs.cancel(JobFilter(job_ids=[job_id], if_possible=True))


def launched_runs(instance: dg.DagsterInstance) -> frozenset[str]:
    """The runs that are in the launch queue: somebody executes them, or will."""
    launcher = launcher_of(instance)
    return frozenset() if launcher is None else launcher.launch_queue.run_ids()


def launch_of(run: dg.DagsterRun) -> Launch:
    """Settings reach the worker the way they reached the process that launches; the password does not."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(ENV_PREFIX) and name not in SECRET_VARIABLES
    }
    config = expand_home(Path(environment.get(f"{ENV_PREFIX}CONFIG", CONFIG_FILE_NAME))).absolute()
    if config.exists():
        environment[f"{ENV_PREFIX}CONFIG"] = str(config)
    return Launch(
        run_id=run.run_id,
        job_name=run.job_name,
        partition_key=run.tags.get(PARTITION_TAG),
        job_tag=job_tag_of(run.tags),
        worker=EXECUTED_BEFORE if run.status is dg.DagsterRunStatus.STARTED else owner_of(run.tags),
        assets=tuple(sorted(key.to_user_string() for key in run.asset_selection or ())),
        overrides=RunOverrides.of(run.run_config),
        priority=int(run.tags.get(PRIORITY_TAG, "0")),
        launched_at=time.time(),
        environment=environment,
        database=current_database(),
        folder=str(Path.cwd()),
    )
