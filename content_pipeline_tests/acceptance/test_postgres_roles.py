"""The roles of deploy/postgres-roles.sql: an owner makes tables, a worker makes none, a reader only looks."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg2  # type: ignore[import-untyped]
import pytest

from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples

ROLES = Path(__file__).resolve().parents[2] / "deploy" / "postgres-roles.sql"


@pytest.fixture
def database() -> Iterator[str]:
    server = postgres.server()
    name = server.create()
    for _ in range(2):  # it may be run again
        server.execute(ROLES.read_text(), name)
    yield name
    server.drop(name)


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    shutil.copy(samples.recording(samples_folder, "short-0.mp4", seconds=6, bursts=((2, 3),)), folder / "game.mp4")
    return folder


def run_as(role: str, database: str, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    url = postgres.server().url(database).replace("postgres@", f"content_ai_{role}@")
    environment = {"CONTENT_AI_DB": url, "CONTENT_AI_DAGSTER_STORAGE": "postgres", "COLUMNS": "300"}
    return content_ai(*arguments, cwd=cwd, env=environment)


def finding(done: subprocess.CompletedProcess[str], name: str) -> dict[str, str]:
    found: dict[str, str] = next(one for one in json.loads(done.stdout) if one["name"] == name)
    return found


def execute_as(role: str, database: str, statement: str) -> None:
    connection = psycopg2.connect(host=str(postgres.server().folder), user=f"content_ai_{role}", dbname=database)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()


def test_the_owner_makes_the_tables_a_worker_does_all_work_and_a_reader_only_looks(
    database: str, library: Path, tmp_path: Path
) -> None:
    # A worker cannot make what is not there, and says who can.
    early = run_as("worker", database, tmp_path, "process", "-i", "library")
    assert early.returncode == 1, early.stderr
    assert "permission denied" in early.stderr and "content-ai database upgrade" in early.stderr
    assert "Traceback" not in early.stderr

    made = run_as("owner", database, tmp_path, "database", "upgrade")
    assert made.returncode == 0 and "is up to date" in made.stdout, made.stderr

    done = run_as("worker", database, tmp_path, "process", "-i", "library", "--json")
    assert done.returncode == 0, done.stderr
    assert [video["status"] for video in json.loads(done.stdout)["videos"]] == ["succeeded"]
    pruned = run_as("worker", database, tmp_path, "queue", "prune", "--older-than", "1s", "--yes")
    assert pruned.returncode == 0, pruned.stderr
    assert finding(run_as("worker", database, tmp_path, "doctor", "--json"), "database role")["detail"].endswith(
        "may work, but not change tables"
    )
    for statement in ("CREATE TABLE content_ai.more (id int)", "DROP TABLE content_ai.videos"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            execute_as("worker", database, statement)

    for command in (
        ["queue", "status"],
        ["queue", "list"],
        ["queue", "show", "library/game.mp4"],
        ["worker", "list"],
        ["plan", "-i", "library"],
    ):
        looked = run_as("reader", database, tmp_path, *command)
        assert looked.returncode == 0, looked.stderr
    doctor = run_as("reader", database, tmp_path, "doctor", "--json")
    assert finding(doctor, "database role")["verdict"] == "warning"
    assert "may read only" in finding(doctor, "database role")["detail"]

    for command in (["process", "-i", "library", "--force"], ["queue", "retry", "--all"], ["queue", "clear", "--yes"]):
        refused = run_as("reader", database, tmp_path, *command)
        assert refused.returncode == 1, refused.stdout
        assert "refuses this to its role" in refused.stderr and "deploy/postgres-roles.sql" in refused.stderr
        assert "Traceback" not in refused.stderr
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        execute_as("reader", database, "DELETE FROM content_ai.job_items")
