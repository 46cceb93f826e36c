"""A supervisor that was started with another database, or with a password that has changed since, gives way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.launchers.local import run_launcher as starting
from content_pipeline.manifest.lifecycle import State
from content_pipeline.system.process_identity import GONE, started_at
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project
from content_pipeline_tests.helpers.stored_texts import files_holding

SUCCESS = dg.DagsterRunStatus.SUCCESS
OLD, NEW = "0ld-s3cr3t", "n3w-s3cr3t"


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    with postgres.with_passwords() as started:
        yield started


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchedProject]:
    with launched_project(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def add(project: LaunchedProject, samples_folder: Path) -> Callable[..., Path]:
    def add(name: str, seconds: float = 6, bursts: tuple[tuple[float, float], ...] = ((2, 3),)) -> None:
        made = samples.recording(samples_folder, f"{seconds:g}.mp4", seconds=seconds, bursts=bursts)
        # Other bytes, so that each is a video of its own.
        mark = b"free" + name.encode()
        (project.library / name).write_bytes(made.read_bytes() + (len(mark) + 4).to_bytes(4, "big") + mark)
        project.enqueue()

    return add


def set_password(server: postgres.Server, password: str) -> None:
    """As an administrator does it: who is connected is thrown out, too."""
    server.execute("DO $$ BEGIN CREATE ROLE me LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN END $$")
    server.execute(f"ALTER ROLE me PASSWORD '{password}'")
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'me'")


def attempts(project: LaunchedProject) -> dict[str, tuple[State, int, int]]:
    return {
        Path(job.subject).name: (job.status, job.attempt_count, job.crash_count) for job in project.manifest.jobs.list()
    }


def secrets_in(folder: Path) -> list[Path]:
    return files_holding(folder, OLD, NEW)


def test_a_supervisor_of_another_database_gives_way_and_no_attempt_is_lost(
    project: LaunchedProject, add: Callable[..., Path]
) -> None:
    add("one.mp4")
    (first,) = project.launch_due().values()
    assert project.ends(first) is SUCCESS
    left_over = project.supervisor()
    project.set(DB="other.db")
    add("two.mp4")
    runs = project.launch_due()
    assert set(runs) == {"one.mp4", "two.mp4"}  # the other database knows neither
    assert {project.ends(run) for run in runs.values()} == {SUCCESS}
    assert attempts(project) == {"one.mp4": (State.SUCCEEDED, 1, 0), "two.mp4": (State.SUCCEEDED, 1, 0)}
    eventually(lambda: started_at(left_over) == GONE, "the left-over supervisor is gone")


@pytest.mark.parametrize("how", ["in the URL", "PGPASSWORD", "pgpass"])
def test_a_changed_password_reaches_a_running_supervisor(
    how: str,
    project: LaunchedProject,
    add: Callable[..., Path],
    server: postgres.Server,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    name = server.create()

    def use(password: str) -> None:
        if how == "in the URL":
            project.set(DB=server.url_with_password(name, "me", password))
            return
        project.set(DB=f"postgres://me@127.0.0.1:{server.port}/{name}")
        if how == "PGPASSWORD":
            monkeypatch.setenv("PGPASSWORD", password)
        else:
            monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
            (tmp_path / "pgpass").write_text(f"*:*:*:me:{password}\n")
            (tmp_path / "pgpass").chmod(0o600)

    set_password(server, OLD)
    use(OLD)
    add("one.mp4")
    (first,) = project.launch_due().values()
    assert project.ends(first) is SUCCESS
    before = project.supervisor()
    set_password(server, NEW)
    use(NEW)
    add("second.mp4")
    (second,) = project.launch_due().values()
    assert project.ends(second) is SUCCESS
    assert attempts(project) == {"one.mp4": (State.SUCCEEDED, 1, 0), "second.mp4": (State.SUCCEEDED, 1, 0)}
    # What is in libpq's own file is read at each connection: the supervisor has it already.
    assert (project.supervisor() == before) is (how == "pgpass")
    assert secrets_in(project.state) == []


def test_a_password_that_changes_under_a_running_job_costs_it_no_attempt(
    project: LaunchedProject, add: Callable[..., Path], server: postgres.Server
) -> None:
    name = server.create()
    set_password(server, OLD)
    project.set(DB=server.url_with_password(name, "me", OLD), QUEUE__GIVE_UP_S="3")
    project.set(RENDER__MODE="encode", RENDER__PRESET="veryslow")
    add("long.mp4", seconds=60, bursts=((10, 12), (40, 42)))
    (run,) = project.launch_due().values()
    project.child_of(run)
    set_password(server, NEW)
    project.set(DB=server.url_with_password(name, "me", NEW), RENDER__PRESET="ultrafast")
    add("short.mp4")
    (second,) = project.launch_due().values()
    assert project.ends(second, 180) is SUCCESS
    project.ends(run)  # nobody could commit what it made; its job waits for another run
    for again in project.launch_due().values():
        assert project.ends(again) is SUCCESS
    assert {status for status, _, _ in attempts(project).values()} == {State.SUCCEEDED}
    assert {count for _, count, _ in attempts(project).values()} == {1}


def test_a_run_that_was_launched_with_the_old_password_goes_on_with_the_new_one(
    project: LaunchedProject, add: Callable[..., Path], server: postgres.Server
) -> None:
    name = server.create()
    set_password(server, OLD)
    project.set(DB=server.url_with_password(name, "me", OLD), RENDER__MODE="encode")
    add("long.mp4", seconds=60, bursts=((10, 12), (40, 42)))
    (run,) = project.launch_due().values()
    project.child_of(run)
    os.kill(project.supervisor(), signal.SIGKILL)
    set_password(server, NEW)
    project.set(DB=server.url_with_password(name, "me", NEW))
    starting.ensure_supervisor(project.home)
    assert project.ends(run, 180) is SUCCESS
    assert {status for status, _, _ in attempts(project).values()} == {State.SUCCEEDED}


def test_a_supervisor_that_does_not_reach_its_database_takes_nobodys_place(
    project: LaunchedProject, add: Callable[..., Path], server: postgres.Server
) -> None:
    name = server.create()
    set_password(server, OLD)
    project.set(DB=server.url_with_password(name, "me", OLD))
    add("one.mp4")
    (run,) = project.launch_due().values()
    assert project.ends(run) is SUCCESS
    good = project.supervisor()
    project.set(DB=server.url_with_password(name, "me", "wr0ng"))
    starting.ensure_supervisor(project.home)
    process, _ = starting._started[project.home]
    assert process.pid != good
    eventually(lambda: process.poll() is not None, "the one with the wrong password has given up")
    assert project.supervisor() == good
    log = (project.home / "supervisor.log").read_text()
    assert "password authentication failed" in log
    assert "wr0ng" not in log


def test_a_launch_file_holds_no_password_and_is_nobody_elses_to_read(
    project: LaunchedProject, add: Callable[..., Path], server: postgres.Server
) -> None:
    name = server.create()
    set_password(server, OLD)
    project.set(DB=server.url_with_password(name, "me", OLD))
    add("one.mp4")
    previous = os.umask(0)
    try:
        (run,) = project.launch_due().values()
    finally:
        os.umask(previous)
    assert secrets_in(project.state) == []
    assert [path for path in (project.home / "launches").rglob("*") if path.stat().st_mode & 0o077] == []
    assert project.ends(run) is SUCCESS
    assert secrets_in(project.state) == []
