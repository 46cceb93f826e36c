"""Two hosts, one Postgres, one Valkey: workers are killed, both servers restarted, and every video is done once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import EnvironmentalError
from content_pipeline.launchers.reconcile import reconcile
from content_pipeline.manifest.lifecycle import State
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.chaos import by_size
from content_pipeline_tests.helpers.eventually import eventually, let_time_pass
from content_pipeline_tests.helpers.namespaces import Host, hosts
from content_pipeline_tests.helpers.rq_hosts import RqProject
from content_pipeline_tests.helpers.valkey import valkey_server

VIDEOS = by_size(6, 200)
WORKERS_A_HOST = by_size(1, 2)
POSTGRES_RESTARTS = by_size((0.5,), (0.25, 0.6))  # when so much is done
VALKEY_RESTARTS = by_size((0.3,), (0.4,))
KILL_EVERY_S = (2.0, 6.0)
MOST_KILLS = by_size(2, 10_000)
LONGEST_S = by_size(200, 3000)
RECONCILE_S = 5.0
SETTINGS = {"QUEUE__HEARTBEAT_S": "1", "QUEUE__LEASE_S": "10", "QUEUE__GIVE_UP_S": "30", "WORKERS": "1"}


class Attacked:
    """The workers of two hosts, each started again when it was killed, as a service manager does."""

    def __init__(self, project: RqProject, machines: tuple[Host, ...], share_state: bool) -> None:
        self.project = project
        self._share_state = share_state
        self.chance = random.Random(7)
        self.kills = 0
        self._places = [host for host in machines for _ in range(WORKERS_A_HOST)]
        self._workers: dict[int, subprocess.Popen[bytes]] = {}

    def start_missing(self) -> None:
        for place, host in enumerate(self._places):
            worker = self._workers.get(place)
            if worker is None or worker.poll() is not None:
                self._workers[place] = self._start(place, host)

    def _start(self, place: int, host: Host) -> subprocess.Popen[bytes]:
        command = [*host.prefix, sys.executable, "-m", "content_pipeline.cli", "worker"]
        with (self.project.folder / f"worker-{place}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                env={**os.environ, "TMPDIR": str(host.temp), "CONTENT_AI_STATE_DIR": str(self.state_of(host))},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def state_of(self, host: Host) -> Path:
        return self.project.state if self._share_state else host.temp / "state"

    def drafts(self) -> list[Path]:
        """What was begun in a state folder, and is left after those of the dead were removed."""
        folders = {self.state_of(host) / "artifacts" for host in self._places}
        for folder in folders:
            ArtifactStore(folder).sweep(older_than_s=0.0)
        return [draft for folder in folders for draft in (folder / ".drafts").glob("*")]

    def kill_one(self) -> None:
        chosen = self._workers[self.chance.choice(sorted(self._workers))]
        self._signal(chosen, signal.SIGKILL)
        chosen.wait(30)
        self.kills += 1

    def _signal(self, worker: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """To the worker's process itself: `nsenter` waits for it outside of its host."""
        for pid in _children(worker.pid) if self._places[0].prefix else [worker.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self) -> list[int]:
        for worker in self._workers.values():
            self._signal(worker, signal.SIGTERM)
        return [worker.wait(60) for worker in self._workers.values()]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """One of its own: it is restarted."""
    started = postgres.start(durable=False)
    try:
        yield started
    finally:
        started.stop()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("share_state", by_size([False], [True, False]), ids=lambda share: f"shared-state-{share}")
def test_kills_on_two_hosts_and_restarts_of_both_servers_lose_nothing_and_repeat_nothing(
    share_state: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    samples_folder: Path,
    server: postgres.Server,
) -> None:
    with hosts(("host-a", "host-b"), tmp_path) as machines, valkey_server(machines.address) as valkey:
        project = RqProject(tmp_path / "project", monkeypatch, server.url(server.create()), valkey)
        project.set(**SETTINGS)
        _add_recordings(project, samples_folder)
        attacked = Attacked(project, machines.hosts, share_state)
        began_s = time.monotonic()
        try:
            _attack(attacked, server)
            _settle(attacked)
        finally:
            codes = attacked.end()
        _report(attacked, machines.is_separate, time.monotonic() - began_s)
        _verify(attacked, codes)


def _add_recordings(project: RqProject, samples_folder: Path) -> None:
    """Other content each: an unused box at the end of a container is no damage."""
    source = samples.recording(samples_folder, "kill-me.mp4", seconds=6, bursts=((2, 3),))
    for number in range(VIDEOS):
        mark = (16).to_bytes(4, "big") + b"free" + f"{number:08d}".encode()
        (project.library / f"game-{number:03}.mp4").write_bytes(source.read_bytes() + mark)
    project.enqueue()


def _attack(attacked: Attacked, server: postgres.Server) -> None:
    project, ended_s = attacked.project, time.monotonic() + LONGEST_S
    postgres_at, valkey_at = list(POSTGRES_RESTARTS), list(VALKEY_RESTARTS)
    while (done := _done(project)) < VIDEOS:
        assert time.monotonic() < ended_s, f"{done} of {VIDEOS} done\n{project.logs()}"
        attacked.start_missing()
        _daemon(project)
        if postgres_at and done >= postgres_at[0] * VIDEOS:
            del postgres_at[0]
            with server.away():
                let_time_pass(3.0, unless=lambda: False)
        if valkey_at and done >= valkey_at[0] * VIDEOS:
            del valkey_at[0]
            with project.valkey.away():
                let_time_pass(3.0, unless=lambda: False)
        let_time_pass(attacked.chance.uniform(*KILL_EVERY_S), unless=lambda: _done(project) == VIDEOS)
        if attacked.kills < MOST_KILLS:
            attacked.kill_one()
    assert not postgres_at and not valkey_at and attacked.kills


def _done(project: RqProject) -> int:
    return project.manifest.jobs.counts()[State.SUCCEEDED]


def _daemon(project: RqProject) -> None:
    """What the daemon's sensors do, from a process that may find each server away."""
    with contextlib.suppress(EnvironmentalError):
        project.launch_due()
    with contextlib.suppress(EnvironmentalError), project.instance() as instance:
        reconcile(project.settings, instance)


def _settle(attacked: Attacked) -> None:
    """Runs whose video was done by another run find that nothing is left to do."""

    def is_settled() -> bool:
        attacked.start_missing()
        _daemon(attacked.project)
        return not attacked.project.open_runs()

    eventually(is_settled, f"no run is open\n{attacked.project.logs()}", 180)


def _report(attacked: Attacked, separate: bool, seconds: float) -> None:
    manifest = attacked.project.manifest
    attempts = [one for job in manifest.jobs.list() for one in manifest.jobs.attempts(job.job_id)]
    outcomes = [one.outcome if one.error_code is None else f"{one.outcome} ({one.error_code})" for one in attempts]
    figures = {outcome: outcomes.count(outcome) for outcome in sorted(set(map(str, outcomes)))}
    kind = "namespaces" if separate else "plain processes"
    text = f"{VIDEOS} videos, {attacked.kills} kills in {seconds:.0f} s on hosts that are {kind}; attempts: {figures}"
    (attacked.project.folder / "figures.txt").write_text(text)


def _verify(attacked: Attacked, codes: list[int]) -> None:
    project = attacked.project
    assert set(codes) <= {0, -signal.SIGTERM}, "workers that are asked to stop end well, or had not begun"
    assert "Traceback" not in project.logs(), project.logs()
    assert set(project.successes().values()) == {1}, project.successes()
    assert len(project.successes()) == VIDEOS == len(list(project.output.glob("*.mp4")))
    checked = subprocess.run(
        [sys.executable, "-m", "content_pipeline.cli", "queue", "check", "--json"], capture_output=True, text=True
    )
    assert json.loads(checked.stdout)["violations"] == [], checked.stdout
    assert attacked.drafts() == []
    assert [path.name for path in project.output.iterdir() if path.name.startswith(".")] == []
    assert project.open_runs() == [] and project.announced() == []
