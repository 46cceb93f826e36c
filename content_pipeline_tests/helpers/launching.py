"""A project whose runs go through the launcher: real runs, a real supervisor, real signals."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.instance import dagster_home
from content_pipeline.dagster_runtime.names import JOB_TAG, PARENT_RUN_TAG
from content_pipeline.definitions import build_definitions
from content_pipeline.defs.sensors.dispatch_jobs import due_runs
from content_pipeline.execution.names import PROCESS_VIDEO
from content_pipeline.launchers.local.folder_launch_queue import FolderLaunchQueue
from content_pipeline.launchers.local.run_launcher import ensure_supervisor
from content_pipeline.launchers.local.supervisor_lock import SupervisorLock
from content_pipeline.library.scan import scan
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.planner import Planner
from content_pipeline.settings import Settings, load
from content_pipeline_tests.helpers.eventually import eventually

FAST = {"QUEUE__HEARTBEAT_S": "0.5", "QUEUE__LEASE_S": "6", "QUEUE__GRACE_S": "2", "LIBRARY__SETTLE_S": "0"}


class LaunchedProject:
    """Settings reach the supervisor the way they do in life: through the environment of whoever launches."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.library = folder / "library"
        self.library.mkdir(parents=True)
        self.output = folder / "output"
        self.state = folder / "state"
        self._monkeypatch = monkeypatch
        self.set(STATE_DIR=str(self.state), OUTPUT_DIR=str(self.output), **FAST)
        monkeypatch.chdir(folder)

    def set(self, **values: str) -> None:
        for name, value in values.items():
            self._monkeypatch.setenv(f"CONTENT_AI_{name}", value)

    @property
    def settings(self) -> Settings:
        return load().settings

    @property
    def manifest(self) -> Manifest:
        return open_manifest(self.settings)

    @property
    def home(self) -> Path:
        return dagster_home(self.settings)

    @property
    def launch_queue(self) -> FolderLaunchQueue:
        return FolderLaunchQueue(self.home)

    @property
    def supervisor_lock(self) -> SupervisorLock:
        return SupervisorLock(self.home)

    def instance(self) -> dg.DagsterInstance:
        from content_pipeline.dagster_runtime.instance import open_instance

        return open_instance(self.settings)

    def job(self, name: str) -> Job:
        (found,) = [job for job in self.manifest.jobs.list() if job.subject.endswith(name)]
        return found

    # --- launching

    def enqueue(self) -> None:
        Planner(self.settings, open_manifest(self.settings)).enqueue(scan(self.library, self.settings.library))

    def launch_due(self) -> dict[str, str]:
        """A run for each job that is due, as the dispatching sensor asks for them; run ids by file name."""
        with self.instance() as instance:
            due = due_runs(self.settings, instance, datetime.now(UTC))
            return {Path(one.job.subject).name: self._launch(instance, one.partition_key, one.tag) for one in due}

    def launch_by_hand(self, video_key: str, *assets: str, config: Mapping[str, Any] | None = None) -> str:
        """`config`: what a person types into the launchpad, by asset."""
        ops = {asset: {"config": values} for asset, values in (config or {}).items()}
        with self.instance() as instance:
            return self._launch(instance, video_key, None, assets, run_config={"ops": ops} if ops else None)

    def launch_again(self, run_id: str) -> str:
        """As "Re-execute" in the UI does."""
        with self.instance() as instance:
            first = instance.get_run_by_id(run_id)
            assert first is not None
            key, tag = first.tags["dagster/partition"], first.tags.get(JOB_TAG)
            more = {PARENT_RUN_TAG: run_id}
            return self._launch(instance, key, tag, more=more, run_config=first.run_config)

    def _launch(self, instance: dg.DagsterInstance, key: str, tag: str | None, *args: Any, **more: Any) -> str:
        run = self._create(instance, key, tag, *args, **more)
        instance.launch_run(run.run_id, None)
        return run.run_id

    def _create(
        self,
        instance: dg.DagsterInstance,
        key: str,
        tag: str | None,
        assets: tuple[str, ...] = (),
        more: Mapping[str, str] | None = None,
        run_config: Mapping[str, Any] | None = None,
    ) -> dg.DagsterRun:
        instance.add_dynamic_partitions("videos", [key])
        defs = build_definitions(self.settings)
        job = defs.resolve_job_def("__ASSET_JOB" if assets else PROCESS_VIDEO)
        if assets:
            job = job.get_subset(asset_selection={dg.AssetKey(asset) for asset in assets})
        tags = {**({} if tag is None else {JOB_TAG: tag}), **(more or {})}
        return internals.create_run(instance, job, key, tags, run_config)

    def status(self, run_id: str) -> dg.DagsterRunStatus:
        with self.instance() as instance:
            run = instance.get_run_by_id(run_id)
            assert run is not None
            return run.status

    def ends(self, run_id: str, timeout_s: float = 90.0) -> dg.DagsterRunStatus:
        """Waits for the run's end, and for the supervisor to be done with it."""
        eventually(lambda: run_id not in self.launch_queue.run_ids(), f"the run {run_id} ended", timeout_s)
        return self.status(run_id)

    def messages(self, run_id: str) -> list[str]:
        with self.instance() as instance:
            return [log.dagster_event.message or "" for log in instance.all_logs(run_id) if log.dagster_event]

    # --- killing

    def supervisor(self) -> int:
        eventually(lambda: getattr(self.supervisor_lock.holder(), "pid", None), "a supervisor lives")
        supervisor = self.supervisor_lock.holder()
        assert supervisor is not None and supervisor.pid is not None
        return supervisor.pid

    def restart_supervisor(self) -> None:
        eventually(lambda: self.supervisor_lock.holder() is None, "the supervisor is gone")
        ensure_supervisor(self.home)

    def child_of(self, run_id: str) -> int:
        """The process that carries a run."""
        eventually(lambda: getattr(self.launch_queue.get(run_id), "pid", None), "a child carries the run")
        launch = self.launch_queue.get(run_id)
        assert launch is not None and launch.pid is not None
        return launch.pid

    def leftovers(self) -> list[str]:
        """Processes of this project, and drafts, that should not be there any more."""
        own = os.getpid()
        mark = f"CONTENT_AI_STATE_DIR={self.state}".encode()
        processes = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if int(folder.name) != own and mark in (folder / "environ").read_bytes().split(b"\0"):
                    processes.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        drafts = [str(path) for path in (self.state / "artifacts" / ".drafts").glob("*")]
        return processes + drafts


@contextlib.contextmanager
def launched_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchedProject]:
    project = LaunchedProject(folder, monkeypatch)
    try:
        yield project
    finally:
        supervisor = project.supervisor_lock.holder()
        if supervisor is not None and supervisor.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(supervisor.pid, signal.SIGKILL)
