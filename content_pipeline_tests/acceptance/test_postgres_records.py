"""The manifest and Dagster's records in one Postgres database that asks for a password, as a person uses it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg2  # type: ignore[import-untyped]
import pytest

from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.acceptance.test_daemon import Dev
from content_pipeline_tests.acceptance.test_secrets import ENCODED, SECRET
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project
from content_pipeline_tests.helpers.stored_texts import files_holding

MASKED = "postgresql+psycopg2://me:***@127.0.0.1"


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    with postgres.with_passwords() as started:
        started.execute(f"CREATE ROLE me LOGIN SUPERUSER PASSWORD '{SECRET}'")
        yield started


@pytest.fixture
def database(server: postgres.Server) -> str:
    return server.create()


@pytest.fixture
def environment(server: postgres.Server, database: str) -> dict[str, str]:
    url = server.url_with_password(database, "me", ENCODED)
    return {"CONTENT_AI_DB": url, "CONTENT_AI_DAGSTER_STORAGE": "postgres", "COLUMNS": "400"}


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    for number in range(3):
        made = samples.recording(samples_folder, f"short-{number}.mp4", seconds=6 + number, bursts=((2, 3),))
        shutil.copy(made, folder / f"game{number}.mp4")
    return folder


def process(cwd: Path, environment: dict[str, str], *more: str) -> list[dict[str, str]]:
    """How each stage of each video came about."""
    done = content_ai("process", "--input", "library", "--json", *more, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stderr and ENCODED not in done.stderr
    return [row["stages"] for row in json.loads(done.stdout)["videos"]]


def rows_holding(server: postgres.Server, database: str, *secrets: str) -> list[str]:
    """The tables of every schema in which one of these texts is."""
    connection = psycopg2.connect(host=str(server.folder), port=server.port, user="postgres", dbname=database)
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(
            "SELECT schemaname || '.' || tablename FROM pg_tables "
            "WHERE schemaname IN ('public', 'content_ai', 'dagster_records')"
        )
        tables = [row[0] for row in cursor.fetchall()]
        assert len(tables) > 20
        found = []
        for table in tables:
            for secret in secrets:
                cursor.execute(f"SELECT count(*) FROM {table} AS one WHERE one::text LIKE %s", (f"%{secret}%",))
                found += [table] if cursor.fetchone()[0] else []
    return found


def dagster(*arguments: str, cwd: Path, environment: dict[str, str]) -> str:
    """A command of Dagster itself, which is told only where its home is."""
    command = [str(Path(sys.executable).parent / "dagster"), *arguments]
    home = {"DAGSTER_HOME": str(cwd / ".content-ai" / "dagster")}
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment, **home}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr and ENCODED not in done.stdout + done.stderr
    return done.stdout


def test_recordings_are_processed_with_everything_in_postgres_and_no_trace_of_the_password(
    server: postgres.Server, database: str, environment: dict[str, str], library: Path, tmp_path: Path
) -> None:
    before = content_ai("doctor", cwd=tmp_path, env=environment)
    assert "no records yet" in before.stdout, before.stdout
    assert [set(stages.values()) for stages in process(tmp_path, environment)] == [{"computed"}] * 3
    assert list((tmp_path / ".content-ai").rglob("*.db")) == []
    assert files_holding(tmp_path, SECRET, ENCODED) == []
    assert rows_holding(server, database, SECRET, ENCODED) == []
    for command in (["doctor"], ["config", "show"]):
        said = content_ai(*command, cwd=tmp_path, env=environment).stdout
        assert MASKED in said and SECRET not in said and ENCODED not in said
    doctor = content_ai("doctor", cwd=tmp_path, env=environment)
    line = next(line for line in doctor.stdout.splitlines() if " dagster " in line)
    assert line.startswith("ok") and MASKED in line and "schema dagster_records" in line
    assert dagster("run", "list", cwd=tmp_path, environment=environment).count("Run: ") == 3
    assert MASKED not in dagster("instance", "info", cwd=tmp_path, environment=environment)


def test_a_lost_manifest_is_rebuilt_and_superseded_runs_are_pruned(
    server: postgres.Server, database: str, environment: dict[str, str], library: Path, tmp_path: Path
) -> None:
    process(tmp_path, environment)
    process(tmp_path, environment, "--rms-threshold", "0.15")
    old = {**environment, "CONTENT_AI_SCHEDULE__KEEP_SUPERSEDED_DAYS": "0"}
    pruned = content_ai("queue", "prune", "--older-than", "1s", "--yes", "--json", cwd=tmp_path, env=old)
    assert pruned.returncode == 0, pruned.stderr
    listed = dagster("run", "list", cwd=tmp_path, environment=environment).count("Run: ")
    assert json.loads(pruned.stdout)["runs"] + listed == 6
    assert 3 <= listed < 6
    server.execute("DROP SCHEMA content_ai CASCADE", database)
    rebuilt = content_ai("queue", "rebuild", "--json", cwd=tmp_path, env=environment)
    assert json.loads(rebuilt.stdout)["videos"] == 3, rebuilt.stderr
    stages = process(tmp_path, environment, "--rms-threshold", "0.15")
    assert "computed" not in {how for one in stages for how in one.values()}
    # The state folder is lost as well: what is in the database is enough to know the videos again.
    server.execute("DROP SCHEMA content_ai CASCADE", database)
    shutil.rmtree(tmp_path / ".content-ai" / "dagster")
    rebuilt = content_ai("queue", "rebuild", "--json", cwd=tmp_path, env=environment)
    assert json.loads(rebuilt.stdout)["videos"] == 3, rebuilt.stderr


def test_the_setting_without_a_postgres_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "game.mp4").write_bytes(b"something")
    done = content_ai("process", "-i", "library", cwd=tmp_path, env={"CONTENT_AI_DAGSTER_STORAGE": "postgres"})
    assert done.returncode == 2, done.stderr
    assert "`db` names no Postgres database" in done.stderr


@pytest.fixture
def project(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchedProject]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with launched_project(tmp_path / "launched", monkeypatch) as found:
        yield found


def test_a_killed_worker_is_followed_by_another_that_goes_on(project: LaunchedProject, library: Path) -> None:
    project.set(KILL_AT="child:energy_sealed")
    shutil.copy(library / "game0.mp4", project.library / "game.mp4")
    project.enqueue()
    (run,) = project.launch_due().values()
    assert project.ends(run).value == "SUCCESS"
    job = project.job("game.mp4")
    assert [one.outcome for one in project.manifest.jobs.attempts(job.job_id)] == ["crashed", "succeeded"]
    started = [message for message in project.messages(run) if message.startswith('Started execution of step "')]
    assert sum('"fingerprint"' in message for message in started) == 1, "what was finished is not done again"
    assert files_holding(project.state, SECRET, ENCODED) == []


class PostgresDev(Dev):
    def __init__(self, folder: Path, given: dict[str, str]) -> None:
        self._given = given
        super().__init__(folder)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self._given}

    def job(self, name: str) -> Job | None:
        settings = load(flags={"state_dir": self.state}, env=self._given | {"COLUMNS": ""}).settings
        found = [job for job in open_manifest(settings).jobs.list() if job.subject.endswith(name)]
        return found[0] if found else None


# The pages that show configuration and text that others wrote: deployment, code locations, the run and its log.
WHAT_THE_UI_SHOWS = """query($run: ID!) {
    instance { info runLauncher { name } daemonHealth { allDaemonStatuses { lastHeartbeatErrors { message } } } }
    workspaceOrError { ... on Workspace { locationEntries { name displayMetadata { key value } } } }
    runOrError(runId: $run) { ... on Run { runConfigYaml tags { key value } } }
    logsForRun(runId: $run) { ... on EventConnection { events { __typename ... on MessageEvent { message stepKey } } } }
}"""


def test_dev_works_with_it_and_no_argument_of_a_process_holds_the_password(
    server: postgres.Server, database: str, environment: dict[str, str], library: Path, tmp_path: Path
) -> None:
    dev = PostgresDev(tmp_path / "dev", environment)
    dev.start()
    try:
        shutil.copy(library / "game0.mp4", dev.library / "game.mp4")
        eventually(lambda: dev.is_done("game.mp4"), "the montage was made", 120)
        job = dev.job("game.mp4")
        eventually(lambda: dev.runs().get(job.run_id) == "SUCCESS", "the UI shows the run")
        pids = dev.processes()
        assert len(pids) >= 3
        commands = [(Path("/proc") / str(pid) / "cmdline").read_bytes() for pid in pids]
        assert not [command for command in commands if SECRET.encode() in command or ENCODED.encode() in command]
        shown = json.dumps(dev.graphql(WHAT_THE_UI_SHOWS, run=job.run_id))
        assert "montage" in shown
        assert SECRET not in shown and ENCODED not in shown
    finally:
        dev.stop()
        for pid in dev.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert files_holding(dev.folder, SECRET, ENCODED) == []
    assert rows_holding(server, database, SECRET, ENCODED) == []
