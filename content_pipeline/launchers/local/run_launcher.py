"""The run launcher: hands each run to warm workers, knows whether they live, and lets runs go on that lost theirs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.dagster_runtime.launches import launch_of
from content_pipeline.dagster_runtime.names import JOB_TAG, owner_of
from content_pipeline.dagster_runtime.private_api import (
    CheckRunHealthResult,
    ConfigurableClass,
    ConfigurableClassData,
    LaunchRunContext,
    ResumeRunContext,
    RunLauncher,
    WorkerStatus,
)
from content_pipeline.dagster_runtime.runs import is_abandoned
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.launchers.launch_queue import LaunchQueue
from content_pipeline.launchers.local.folder_launch_queue import FolderLaunchQueue
from content_pipeline.launchers.local.supervisor_lock import SupervisorLock
from content_pipeline.launchers.local.supervisor_process import IDLE_S, ensure_supervisor
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load

LAST_LINES_BYTES = 2000


class WarmRunLauncher(RunLauncher, ConfigurableClass):
    """One supervisor per Dagster home forks a child per run, with everything heavy loaded already.

    Loaded by the webserver, the daemon and the CLI; it keeps nothing in memory, so that any of them may die.
    """

    def __init__(self, idle_seconds: float = IDLE_S, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of Dagster's mix-in
        self._inst_data = inst_data
        self._idle_s = idle_seconds

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {
            "idle_seconds": dg.Field(
                dg.IntSource,
                default_value=int(IDLE_S),
                description="Seconds without work after which the workers exit.",
            )
        }

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> WarmRunLauncher:
        return cls(inst_data=inst_data, **config_value)

    @property
    def idle_s(self) -> float:
        return self._idle_s

    @property
    def _home(self) -> Path:
        return Path(self._instance.root_directory)

    @property
    def _launch_queue(self) -> LaunchQueue:
        return FolderLaunchQueue(self._home)

    @property
    def _supervisor_lock(self) -> SupervisorLock:
        return SupervisorLock(self._home)

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
        self._launch_queue.add(launch_of(run))
        ensure_supervisor(self._home, self._idle_s)
        self._instance.report_engine_event(f"Handed to the workers of {self._home}.", run)

    # --- stopping

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        if run.status is not dg.DagsterRunStatus.CANCELING:
            self._instance.report_run_canceling(run)
        if owner_of(run.tags) is not None and self._launch_queue.get(run_id) is None:
            return self._terminate_elsewhere(run)
        if self._launch_queue.get(run_id) is None:
            self._launch_queue.add(launch_of(run))
        self._launch_queue.ask_to_stop(run_id)
        ensure_supervisor(self._home, self._idle_s)
        return True

    def _terminate_elsewhere(self, run: dg.DagsterRun) -> bool:
        """A run that a command carries by itself is stopped through its job."""
        manifest = open_manifest(load().settings)
        job_id, _ = parse_job_tag(run.tags[JOB_TAG])
        manifest.jobs.cancel(JobFilter(job_ids=[job_id], if_possible=True))
        if is_abandoned(run, manifest):
            self._instance.report_run_canceled(run, "The process that executed this run is gone.")
        return True

    # --- looking

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Dead only when that is sure: a run that is not known to be lost is left alone."""
        launch = self._launch_queue.get(run.run_id)
        if launch is None:
            return self._health_elsewhere(run)
        supervisor = self._supervisor_lock.holder()
        if supervisor is None or self._supervisor_lock.is_hung(supervisor):
            return CheckRunHealthResult(WorkerStatus.FAILED, "the supervisor of the workers is gone or hangs")
        return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=launch.worker)

    def _health_elsewhere(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        owner = owner_of(run.tags)
        if owner is not None and not is_abandoned(run, open_manifest(load().settings)):
            return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=owner)
        again = self._instance.get_run_by_id(run.run_id)
        if again is None or again.is_finished:  # it ended between two looks
            return CheckRunHealthResult(WorkerStatus.SUCCESS)
        return CheckRunHealthResult(WorkerStatus.FAILED, "no process executes this run")

    def get_run_worker_debug_info(self, run: dg.DagsterRun, include_container_logs: bool | None = True) -> str | None:
        launch, supervisor = self._launch_queue.get(run.run_id), self._supervisor_lock.holder()
        if launch is None:
            return f"not executed by the workers; owner {owner_of(run.tags)}"
        alive = "gone" if supervisor is None else f"alive (pid {supervisor.pid})"
        lines = [f"supervisor {alive}; worker {launch.worker}; pid {launch.pid}; log {launch.log}"]
        if include_container_logs and launch.log is not None and Path(launch.log).exists():
            lines.append(Path(launch.log).read_bytes()[-LAST_LINES_BYTES:].decode(errors="replace"))
        return "\n".join(lines)

    def join(self, timeout: int = 30) -> None:
        """Wait until nothing is launched any more."""
        deadline = time.monotonic() + timeout
        while self._launch_queue.run_ids() and time.monotonic() < deadline:
            time.sleep(0.1)

    def dispose(self) -> None:
        """Nothing is held: the supervisor lives on, and stops by itself when it is idle."""
