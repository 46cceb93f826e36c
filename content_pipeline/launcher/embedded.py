"""Runs without a daemon: created here, executed in warm children of this process."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.defs.jobs import PROCESS_VIDEO
from content_pipeline.defs.partitions import VIDEOS
from content_pipeline.defs.reporting import Listener, Sender, Silent
from content_pipeline.launcher import _dagster_internals as internals
from content_pipeline.launcher.home import open_instance
from content_pipeline.settings import Settings
from content_pipeline.workers.pool import Task

OWNER_TAG = "content-ai/owner"

BuildJob = Callable[[Listener], dg.JobDefinition]


class EmbeddedRuns:
    """`build_job` composes `process_video` for whoever listens to it."""

    def __init__(self, settings: Settings, build_job: BuildJob) -> None:
        self._settings = settings
        self._build_job = build_job
        self._instance = open_instance(settings)
        self._job = build_job(Silent())
        self._runs: dict[str, dg.DagsterRun] = {}

    def close_abandoned(self) -> int:
        """End the runs whose process is gone, so that none stays started for ever."""
        unfinished = dg.RunsFilter(
            job_name=PROCESS_VIDEO,
            statuses=[dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED],
        )
        abandoned = [run for run in self._instance.get_runs(unfinished) if _owner_is_gone(run.tags.get(OWNER_TAG))]
        for run in abandoned:
            internals.report_worker_died(self._instance, run, "The process that carried this run is gone.")
        return len(abandoned)

    def register(self, video_key: str) -> None:
        """Make the video a partition."""
        self._instance.add_dynamic_partitions(str(VIDEOS.name), [video_key])

    def task(self, video_key: str) -> Task:
        """A run of this video, ready to be executed in a child."""
        self.register(video_key)
        run = internals.create_run(self._instance, self._job, video_key, {OWNER_TAG: _this_process()})
        self._runs[video_key] = run

        def execute(send: Callable[[Any], None]) -> None:
            instance = open_instance(self._settings)  # connections never cross a fork
            internals.execute(instance, self._build_job(Sender(send)), run)
            ended = instance.get_run_by_id(run.run_id)
            send({"is": "ended", "run_status": None if ended is None else ended.status.value})

        return Task(video_key, execute, self.log_path(run.run_id))

    def child_died(self, video_key: str, how: str) -> None:
        run = self._instance.get_run_by_id(self._runs[video_key].run_id)
        if run is not None and not run.is_finished:
            internals.report_worker_died(self._instance, run, f"The worker process was {how}.")

    def log_path(self, run_id: str) -> Path:
        return self._settings.state_dir.absolute() / "logs" / f"{run_id}.log"


def _this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{_started_at(os.getpid())}"


def _owner_is_gone(owner: str | None) -> bool:
    """Only a process of this host is ever called gone."""
    if owner is None:
        return False
    host, pid, started = owner.rsplit(":", 2)
    return host == socket.gethostname() and _started_at(int(pid)) != started


def _started_at(pid: int) -> str:
    """When a process started, in the kernel's own count; a pid that was given anew differs."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return "gone"
    return after_name.split()[19]
