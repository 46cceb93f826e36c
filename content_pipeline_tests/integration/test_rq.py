"""Runs through RQ, with real servers: workers, Redis and Postgres may die at any moment; every video is done once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from rq.job import Job
from rq.serializers import JSONSerializer

from content_pipeline.dagster_runtime.names import PRIORITY_TAG
from content_pipeline.dagster_runtime.private_api import WorkerStatus
from content_pipeline.dagster_runtime.runs import DagsterRuns
from content_pipeline.definitions import build_definitions
from content_pipeline.defs.sensors.dispatch_jobs import due_runs
from content_pipeline.errors import BadSettings
from content_pipeline.execution.outcome import NullWatcher
from content_pipeline.launchers.queue_launcher import launch_of
from content_pipeline.launchers.reconcile import reconcile
from content_pipeline.launchers.rq.announcements import KINDS, Announcements
from content_pipeline.launchers.rq.redis_server import RedisServer
from content_pipeline.launchers.rq.run_launcher import RqRunLauncher
from content_pipeline.launchers.rq.worker import RqWorker
from content_pipeline.manifest.lifecycle import State
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.rq_hosts import RqProject, rq_project
from content_pipeline_tests.helpers.stored_texts import files_holding
from content_pipeline_tests.helpers.valkey import PASSWORD, Valkey, valkey_server

SUCCESS, CANCELED, STARTED = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.STARTED
SLOW = {"RENDER__MODE": "encode", "RENDER__PRESET": "veryslow"}


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    with valkey_server() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valkey: Valkey) -> Iterator[RqProject]:
    with rq_project(tmp_path / "project", monkeypatch, postgres.server(), valkey) as project:
        yield project


@pytest.fixture
def games(project: RqProject, samples_folder: Path) -> RqProject:
    """Four short recordings, of which each run takes a moment."""
    for number in range(4):
        made = samples.recording(samples_folder, f"short-{number}.mp4", seconds=6 + number, bursts=((2, 3),))
        shutil.copy(made, project.library / f"game{number}.mp4")
    project.enqueue()
    return project


@pytest.fixture
def long_game(project: RqProject, samples_folder: Path) -> RqProject:
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    shutil.copy(long, project.library / "game.mp4")
    project.set(**SLOW)
    project.enqueue()
    return project


def under_way(project: RqProject, run_id: str) -> None:
    eventually(lambda: project.job("game.mp4").video_key, f"it is worked on\n{project.logs()}")
    eventually(lambda: project.status(run_id) is STARTED, "its run has started")


def test_workers_of_two_processes_do_all_runs_once_and_a_message_is_a_run_id_and_nothing_more(
    games: RqProject, valkey: Valkey
) -> None:
    runs = set(games.launch_due().values())
    assert set(games.announced()) == runs
    message = Job.fetch(min(runs), RedisServer(games.settings).connection, JSONSerializer)
    assert (message.args, message.kwargs, message.meta) == ([], {}, {})
    workers = [games.start_worker(), games.start_worker()]
    assert {games.ends(run) for run in runs} == {SUCCESS}
    assert games.successes() == {f"game{number}.mp4": 1 for number in range(4)}
    pids = {
        attempt.worker_id for job in games.manifest.jobs.list() for attempt in games.manifest.jobs.attempts(job.job_id)
    }
    assert len(pids) == 2, "both took runs"
    assert len(valkey.client.smembers("rq:workers")) == 2, "RQ's own tools see them"
    with games.launcher() as launcher:
        assert launcher.has_workers()
    assert files_holding(games.folder, PASSWORD) == []
    commands = [Path(f"/proc/{worker.pid}/cmdline").read_bytes() for worker in workers]
    assert not any(PASSWORD.encode() in command for command in commands)
    assert games.manifest.check() == [] and games.announced() == [] and games.open_runs() == []


def test_a_killed_worker_s_run_goes_on_with_another_and_is_done_once(long_game: RqProject) -> None:
    (run,) = long_game.launch_due().values()
    first = long_game.start_worker()
    under_way(long_game, run)
    long_game.set(RENDER__PRESET="ultrafast")
    long_game.kill_worker(first)
    long_game.start_worker()
    assert long_game.ends(run) is SUCCESS
    job = long_game.job("game.mp4")
    assert [one.outcome for one in long_game.manifest.jobs.attempts(job.job_id)] == ["rescued", "succeeded"]
    assert long_game.successes() == {"game.mp4": 1}


def test_a_doubled_message_is_worked_on_by_one_and_left_by_the_other(long_game: RqProject, valkey: Valkey) -> None:
    (run,) = long_game.launch_due().values()
    long_game.start_worker()
    under_way(long_game, run)
    second = long_game.start_worker()
    announce_again(long_game, run)
    eventually(lambda: run not in long_game.announced(), "the other took the message")
    eventually(lambda: valkey.client.scard("rq:workers") == 2, "it lives")
    assert long_game.job("game.mp4").claim_count == 1 and second.poll() is None
    assert long_game.terminate(run)
    assert long_game.ends(run, 30) is CANCELED


def announce_again(project: RqProject, run_id: str) -> None:
    with project.instance() as instance:
        Announcements(RedisServer(project.settings)).announce(launch_of(instance.get_run_by_id(run_id)))


def test_announcing_is_idempotent_also_from_several_processes_at_once(games: RqProject) -> None:
    runs = games.launch_due()
    for run in runs.values():
        announce_again(games, run)
    with games.instance() as instance:
        reconcile(games.settings, instance)
    assert sorted(games.announced()) == sorted(runs.values())


def test_a_redis_that_was_emptied_hears_of_all_runs_again(games: RqProject, valkey: Valkey) -> None:
    runs = games.launch_due().values()
    valkey.client.flushall()
    assert games.announced() == []
    games.start_worker()
    eventually(lambda: any(games.successes().values()), f"one is done\n{games.logs()}")
    valkey.client.flushall()
    assert {games.ends(run) for run in runs} == {SUCCESS}
    assert set(games.successes().values()) == {1}


def test_runs_that_are_launched_while_redis_is_away_wait_and_go_on_by_themselves(
    games: RqProject, valkey: Valkey
) -> None:
    worker = games.start_worker()
    eventually(lambda: valkey.client.scard("rq:workers"), "the worker waits")
    with valkey.away():
        runs = games.launch_due()
        assert {games.status(run) for run in runs.values()} == {dg.DagsterRunStatus.STARTING}
        eventually(lambda: "cannot be used" in games.logs(), "the worker says what is missing")
        assert PASSWORD not in games.logs()
    assert {games.ends(run) for run in runs.values()} == {SUCCESS}
    assert worker.poll() is None
    assert any("announced when Redis is back" in said for said in games.messages(next(iter(runs.values()))))
    assert set(games.successes().values()) == {1}


def test_a_worker_that_is_asked_to_stop_hands_its_run_to_another_at_no_cost(long_game: RqProject) -> None:
    (run,) = long_game.launch_due().values()
    first = long_game.start_worker()
    under_way(long_game, run)
    os.kill(first.pid, signal.SIGTERM)
    assert first.wait(30) == 0
    job = long_game.job("game.mp4")
    assert (job.status, job.attempt_count, job.crash_count) == (State.PENDING, 0, 0)
    assert long_game.announced() == [run], "announced by the one who goes"
    assert long_game.status(run) is STARTED
    health = check_health(long_game, run)
    assert health is WorkerStatus.RUNNING, "it waits, and nobody has to resume it"
    long_game.set(RENDER__PRESET="ultrafast")
    long_game.start_worker()
    assert long_game.ends(run) is SUCCESS


def check_health(project: RqProject, run_id: str) -> WorkerStatus:
    with project.instance() as instance:
        return instance.run_launcher.check_run_worker_health(instance.get_run_by_id(run_id)).status


def test_a_run_is_terminated_through_its_job_and_one_that_waits_at_once(long_game: RqProject) -> None:
    (run,) = long_game.launch_due().values()
    long_game.start_worker()
    under_way(long_game, run)
    assert check_health(long_game, run) is WorkerStatus.RUNNING
    with long_game.instance() as instance:
        said = instance.run_launcher.get_run_worker_debug_info(instance.get_run_by_id(run))
    assert "by the lease of its job" in said and f":{long_game.workers[0].pid}:" in said
    assert long_game.terminate(run)
    assert long_game.ends(run, 30) is CANCELED
    assert long_game.job("game.mp4").status is State.CANCELLED
    long_game.stop()
    again = long_game.launch_by_hand(long_game.job("game.mp4").video_key)
    assert long_game.terminate(again)
    assert long_game.status(again) is CANCELED


def test_higher_priorities_go_first_and_only_chosen_kinds_are_taken(games: RqProject, valkey: Valkey) -> None:
    with games.instance() as instance:
        due = due_runs(games.settings, instance, datetime.now(UTC))
        wanted = dict(zip(("-10", "0", "7"), due, strict=False))
        runs = {
            priority: games._launch(instance, one.partition_key, one.tag, more={PRIORITY_TAG: priority})
            for priority, one in wanted.items()
        }
    other = games.start_worker("--kinds", "calibration")
    eventually(lambda: valkey.client.scard("rq:workers"), "it looks for calibrations")
    assert len(games.announced()) == 3
    games.kill_worker(other)
    games.start_worker("--kinds", "processing,other")
    assert {games.ends(run) for run in runs.values()} == {SUCCESS}
    started = {
        attempt.run_id: attempt.started_at
        for job in games.manifest.jobs.list()
        for attempt in games.manifest.jobs.attempts(job.job_id)
    }
    assert sorted(runs, key=lambda priority: started[runs[priority]]) == ["7", "0", "-10"]


def test_a_run_about_no_job_is_executed_once_and_its_lease_released(project: RqProject, valkey: Valkey) -> None:
    with project.instance() as instance:
        job = build_definitions(project.settings).resolve_job_def("retention")
        run = instance.create_run_for_job(job)
        instance.launch_run(run.run_id, None)
    assert valkey.client.lrange("rq:queue:content-ai:other:normal", 0, -1) == [run.run_id]
    project.start_worker()
    assert project.ends(run.run_id) is SUCCESS
    eventually(lambda: not valkey.client.keys("content-ai:run-*"), "its lease was released")


def content_ai(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **{f"CONTENT_AI_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "content_pipeline.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_a_redis_that_cannot_be_reached_is_named_at_the_start_and_its_password_is_not(
    project: RqProject, valkey: Valkey
) -> None:
    with valkey.away():
        for command in ("worker", "dev"):
            done = content_ai(command)
            assert done.returncode == 1, done.stdout + done.stderr
            assert f"redis://:***@127.0.0.1:{valkey.port}/0 cannot be used" in done.stdout + done.stderr
            assert PASSWORD not in done.stdout + done.stderr
    wrong = content_ai("worker", REDIS_URL=valkey.url.replace(PASSWORD, "wr0ng"))
    assert "refuses the password" in wrong.stderr and "wr0ng" not in wrong.stderr
    shown = content_ai("config", "show")
    assert "redis://:***@" in shown.stdout and PASSWORD not in shown.stdout + shown.stderr
    assert "no worker: start" in content_ai("doctor").stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"DB": "", "DAGSTER_STORAGE": "sqlite"}, "needs the manifest and Dagster's records in Postgres"),
        ({"DAGSTER_STORAGE": "sqlite"}, "needs the manifest and Dagster's records in Postgres"),
        ({"REDIS_URL": ""}, "`redis_url` is not set"),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, dict) else "",
)
def test_settings_that_contradict_each_other_are_refused(project: RqProject, given: dict[str, str], said: str) -> None:
    project.set(**given)
    with pytest.raises(BadSettings, match=said):
        RqRunLauncher(project.settings)
    runs = partial(DagsterRuns, compose=build_definitions)
    with pytest.raises(BadSettings, match=said):
        RqWorker(project.settings, lambda: project.settings, runs, NullWatcher(), KINDS)


def test_a_kind_that_does_not_exist_is_refused_by_name(project: RqProject) -> None:
    done = content_ai("worker", "--kinds", "all")
    assert done.returncode == 2 and "choose of processing, calibration, other" in done.stderr
