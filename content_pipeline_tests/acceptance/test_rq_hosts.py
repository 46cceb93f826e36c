"""Two hosts, as namespaces with a cable each: one is cut off, or its clock is wrong. Every video is done once."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.manifest.lifecycle import State
from content_pipeline.system.hashing import sha256_of
from content_pipeline.system.process_identity import state_of
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.clocks import shifted_clock
from content_pipeline_tests.helpers.eventually import eventually, let_time_pass
from content_pipeline_tests.helpers.namespaces import Host, hosts
from content_pipeline_tests.helpers.rq_hosts import RqProject
from content_pipeline_tests.helpers.valkey import valkey_server

LEASE_S = 8.0
SETTINGS = {"QUEUE__HEARTBEAT_S": "1", "QUEUE__LEASE_S": str(LEASE_S), "QUEUE__GIVE_UP_S": "4"}
SLOW = {"CONTENT_AI_RENDER__MODE": "encode", "CONTENT_AI_RENDER__PRESET": "veryslow"}
SUCCESS = dg.DagsterRunStatus.SUCCESS
OFF_S = 600
PASSWORD = "p0stgr3s-s3cr3t"


@dataclass
class Network:
    """Both servers are reached through the cables, and by no file that the hosts share."""

    project: RqProject
    a: Host
    b: Host

    def start_worker(self, host: Host, **environment: str) -> subprocess.Popen[bytes]:
        given = {"TMPDIR": str(host.temp), "CONTENT_AI_STATE_DIR": str(host.temp / "state"), **environment}
        with (self.project.folder / f"worker-{host.name}.log").open("ab") as log:
            worker = subprocess.Popen(
                [*host.prefix, sys.executable, "-m", "content_pipeline.cli", "worker"],
                env={**os.environ, **given},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.project.workers.append(worker)
        return worker

    def outcomes(self) -> list[tuple[str | None, str]]:
        """Of each attempt, and on which host."""
        return [(one.outcome, one.worker_id.partition(":")[0]) for one in self.project.attempts("game.mp4")]

    def verify_done_once(self) -> None:
        project = self.project
        assert project.successes() == {"game.mp4": 1}
        job = project.job("game.mp4")
        montages = list(project.output.glob("*.mp4"))
        assert [job.output_hashes[str(path)] for path in montages] == [sha256_of(path) for path in montages]
        assert len(montages) == 1 and not list(project.output.glob(".*"))
        assert project.manifest.check() == [] and project.open_runs() == []
        assert "Traceback" not in project.logs(), project.logs()
        assert PASSWORD not in project.logs()


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples_folder: Path) -> Iterator[Network]:
    with contextlib.ExitStack() as stack:
        machines = stack.enter_context(hosts(("host-a", "host-b"), tmp_path))
        if not machines.is_separate:
            pytest.skip("NOT TESTED: a host that is cut off. It needs root, and `ip`, `unshare`, `nsenter`, `hostname`")
        valkey = stack.enter_context(valkey_server(machines.address))
        server = stack.enter_context(postgres.with_passwords(machines.address))
        server.execute(f"ALTER ROLE postgres PASSWORD '{PASSWORD}'")
        url = server.url_with_password(server.create(), "postgres", PASSWORD)
        project = RqProject(tmp_path / "project", monkeypatch, f"{url}?tcp_user_timeout=3000", valkey)
        stack.callback(project.stop)
        project.set(**SETTINGS)
        long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
        shutil.copy(long, project.library / "game.mp4")
        project.enqueue()
        yield Network(project, *machines.hosts)


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def worker_process(worker: subprocess.Popen[bytes]) -> int:
    """`nsenter` waits for it outside of its host."""
    return eventually(lambda: children(worker.pid), "the worker runs")[0]


def stopped_child(worker: subprocess.Popen[bytes]) -> int:
    """The one that has come to the failpoint, with all its work done and nothing published."""
    parent = worker_process(worker)
    return eventually(lambda: next((one for one in children(parent) if state_of(one) in "Tt"), 0), "it is stopped")


def is_claimed(project: RqProject) -> bool:
    return project.job("game.mp4").status is State.RUNNING


def test_a_host_that_was_cut_off_finds_its_job_done_by_another_and_its_late_result_refused(network: Network) -> None:
    project = network.project
    (run,) = project.launch_due().values()
    first = network.start_worker(network.a, CONTENT_AI_KILL_AT="stop:staged")
    child = stopped_child(first)
    parent = worker_process(first)
    second = network.start_worker(network.b)
    os.kill(parent, signal.SIGSTOP)  # it would see in time that the lease is lost, and end its child
    with network.a.cut_off():
        assert project.ends(run) is SUCCESS, "the other one, who is not cut off, did it"
        assert network.outcomes() == [("rescued", "host-a"), ("succeeded", "host-b")]
        before = {path: path.stat().st_mtime_ns for path in project.output.glob("*")}
    os.kill(child, signal.SIGCONT)
    log = network.a.temp / "state" / "logs" / f"run-{run}.log"
    eventually(lambda: state_of(child) in ("", "Z"), "the late one has ended")
    os.kill(parent, signal.SIGCONT)
    assert "lease on job" in log.read_text() and "is gone" in log.read_text(), log.read_text()
    assert {path: path.stat().st_mtime_ns for path in project.output.glob("*")} == before, "nothing published twice"
    assert first.poll() is None and second.poll() is None, "both work on"
    assert project.status(run) is SUCCESS, "what the late one said of the run changes nothing"
    network.verify_done_once()


def test_a_worker_that_is_cut_off_stops_its_child_by_itself_and_takes_work_when_it_is_back(network: Network) -> None:
    project = network.project
    (run,) = project.launch_due().values()
    first = network.start_worker(network.a, **SLOW)
    parent = worker_process(first)
    eventually(lambda: is_claimed(project) and children(parent), "a child works")
    with network.a.cut_off():
        eventually(lambda: not children(parent), f"its child is stopped though nobody told it\n{project.logs()}", 60)
        eventually(lambda: "does not answer" in project.logs(), f"it says why\n{project.logs()}")
        assert first.poll() is None
        let_time_pass(LEASE_S, unless=lambda: not project.manifest.jobs.stale())
    project.set(RENDER__PRESET="ultrafast")
    eventually(lambda: network.outcomes()[0] == ("rescued", "host-a"), "brought back by the one who is back")
    assert project.ends(run) is SUCCESS
    assert network.outcomes()[-1] == ("succeeded", "host-a")
    network.verify_done_once()


@pytest.mark.parametrize("off_s", [0, OFF_S, -OFF_S])
def test_a_live_worker_elsewhere_is_never_rescued_from_and_a_dead_one_in_time_whatever_the_clocks_say(
    network: Network, off_s: int
) -> None:
    clocks = shifted_clock(off_s), shifted_clock(-off_s)
    if clocks[0] is None or clocks[1] is None:
        pytest.skip("NOT TESTED: a host whose clock is off. It needs libfaketime (Debian: `apt install faketime`)")
    project = network.project
    (run,) = project.launch_due().values()
    first = network.start_worker(network.a, CONTENT_AI_KILL_AT="stop:staged", **clocks[0])
    stopped_child(first)
    network.start_worker(network.b, **clocks[1])
    eventually(lambda: len(project.manifest.workers.all()) == 2, "both work")
    assert all(not row.is_silent(datetime.now(UTC)) for row in project.manifest.workers.all())
    let_time_pass(2.5 * LEASE_S, unless=lambda: project.job("game.mp4").claim_count > 1)
    assert network.outcomes() == [(None, "host-a")], "it renews, and nobody is early"

    os.kill(worker_process(first), signal.SIGKILL)
    eventually(lambda: network.outcomes()[0][0] == "rescued", "nobody is late", LEASE_S + 15)
    assert project.ends(run) is SUCCESS
    assert network.outcomes() == [("rescued", "host-a"), ("succeeded", "host-b")]
    network.verify_done_once()
