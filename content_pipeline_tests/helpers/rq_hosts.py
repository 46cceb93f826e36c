"""A project whose runs go through RQ: real Postgres, real Valkey, real worker processes, real signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.defs.sensors.dispatch_jobs import OPEN
from content_pipeline.launchers.queue_launcher import launcher_of
from content_pipeline.launchers.rq.run_launcher import RqRunLauncher
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Attempt
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.launching import LaunchedProject
from content_pipeline_tests.helpers.valkey import Valkey


class RqProject(LaunchedProject):
    """Every worker is a process of its own, with a log of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, database_url: str, valkey: Valkey) -> None:
        super().__init__(folder, monkeypatch)
        self.folder = folder
        self.valkey = valkey
        self.workers: list[subprocess.Popen[bytes]] = []
        self.set(DB=database_url, DAGSTER_STORAGE="postgres", LAUNCHER__ENGINE="rq", REDIS_URL=valkey.url, WORKERS="1")

    @contextlib.contextmanager
    def launcher(self) -> Iterator[RqRunLauncher]:
        with self.instance() as instance:
            found = launcher_of(instance)
            assert isinstance(found, RqRunLauncher)
            yield found

    def terminate(self, run_id: str) -> bool:
        with self.launcher() as launcher:
            return launcher.terminate(run_id)

    def start_worker(self, *flags: str, prefix: tuple[str, ...] = (), **settings: str) -> subprocess.Popen[bytes]:
        given = {f"CONTENT_AI_{name}": value for name, value in settings.items()}
        command = [*prefix, sys.executable, "-m", "content_pipeline.cli", "worker", *flags]
        with (self.folder / f"worker-{len(self.workers)}.log").open("ab") as log:
            started = subprocess.Popen(
                command,
                env={**os.environ, **given},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.workers.append(started)
        return started

    def logs(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("worker-*.log"))

    def ends(self, run_id: str, timeout_s: float = 90.0) -> dg.DagsterRunStatus:
        """Waits for the run's end, and for its worker to commit: the child ends the run before that."""

        def ended() -> bool:
            with self.instance() as instance:
                if not instance.get_run_by_id(run_id).is_finished:
                    return False
            return not self.manifest.jobs.list(JobFilter(run_id=run_id, status=State.RUNNING))

        eventually(ended, f"the run {run_id} ended\n{self.logs()}", timeout_s)
        return self.status(run_id)

    def open_runs(self) -> list[str]:
        with self.instance() as instance:
            return [run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=OPEN))]

    def successes(self) -> dict[str, int]:
        """How often each recording succeeded, by the audit log."""
        manifest = self.manifest
        return {
            Path(job.subject).name: sum(move.to_state is State.SUCCEEDED for move in manifest.jobs.history(job.job_id))
            for job in manifest.jobs.list()
        }

    def attempts(self, name: str) -> Sequence[Attempt]:
        return self.manifest.jobs.attempts(self.job(name).job_id)

    def announced(self) -> list[str]:
        client = self.valkey.client
        return [str(run_id) for key in client.keys("rq:queue:content-ai:*") for run_id in client.lrange(key, 0, -1)]

    def kill_worker(self, worker: subprocess.Popen[bytes]) -> None:
        """The worker alone: its children die with it."""
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


@contextlib.contextmanager
def rq_project(
    folder: Path, monkeypatch: pytest.MonkeyPatch, server: postgres.Server, valkey: Valkey
) -> Iterator[RqProject]:
    database = server.create()
    project = RqProject(folder, monkeypatch, server.url(database), valkey)
    try:
        yield project
    finally:
        project.stop()
