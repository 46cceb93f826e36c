"""What commands do with a database that is missing, somebody else's, or damaged, as a person would meet it."""

import sqlite3
from pathlib import Path

import pytest

from content_pipeline_tests.acceptance.test_cli import content_ai

LOOKING = [
    ("queue", "status"),
    ("queue", "list"),
    ("queue", "show", "x"),
    ("queue", "check"),
    ("plan", "-i", "."),
    ("config", "show"),
    ("doctor",),
]
WRITING = [("process", "-i", "."), ("queue", "process"), ("queue", "retry"), ("queue", "prune", "--yes"), ("worker",)]


def everything_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.glob("*.db*")}


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_command_that_only_looks_makes_nothing(command: tuple[str, ...], tmp_path: Path) -> None:
    done = content_ai(*command, cwd=tmp_path)
    assert done.returncode in ((1, 2) if "show" in command and "x" in command else (0,)), done.stdout + done.stderr
    named = content_ai(*command, "--set", "db=mistyped.db", cwd=tmp_path)
    if command[0] == "queue":
        assert named.returncode == 2
        assert "no manifest at" in named.stderr and "mistyped.db" in named.stderr
    else:
        assert named.returncode == 0, named.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [*LOOKING, *WRITING], ids=" ".join)
def test_a_database_of_another_program_is_never_touched(command: tuple[str, ...], tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "notes.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "CREATE TABLE notes (text)", "INSERT INTO notes VALUES ('mine')"):
        connection.execute(statement)
    before = everything_in(tmp_path)
    done = content_ai(*command, "--set", "db=notes.db", cwd=tmp_path)
    if command[0] not in ("config", "doctor"):
        assert done.returncode == 2
    assert "notes.db is no manifest" in done.stdout + done.stderr
    assert everything_in(tmp_path) == before
    connection.close()
