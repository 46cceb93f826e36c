"""What commands do with a database that is missing, somebody else's, or damaged, as a person would meet it."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from content_pipeline.dagster_runtime.storage import sqlite as records_sqlite  # type: ignore[attr-defined]
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.helpers import samples

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


# --- a state folder that was used


def whole(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder with its time and bytes: the time of a folder tells of files that came and went."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [folder, *folder.rglob("*")]
    }


@pytest.fixture
def project(tmp_path: Path, samples_folder: Path) -> Path:
    """With one recording that was processed."""
    library = tmp_path / "library"
    library.mkdir()
    shutil.copy(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), library / "a.mp4")
    done = content_ai("process", "-i", "library", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


@contextmanager
def _at_rest(_state: Path) -> Iterator[None]:
    yield


@contextmanager
def _manifest_with_log(state: Path) -> Iterator[None]:
    """As a person leaves it who typed `PRAGMA journal_mode=WAL`."""
    with closing(sqlite3.connect(state / "queue.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    yield


@contextmanager
def _databases_in_use(state: Path) -> Iterator[None]:
    """With logs that are not written into the databases yet."""
    manifest = sqlite3.connect(state / "queue.db", isolation_level=None)
    records = records_sqlite.connect(state / "dagster/history/event_log.db", isolation_level=None)
    with closing(manifest), closing(records):
        manifest.execute("PRAGMA journal_mode=WAL")
        for connection in (manifest, records):
            connection.execute("CREATE TABLE something (more)")
        yield


@contextmanager
def _logs_left_behind(state: Path) -> Iterator[None]:
    """As after a kill, or copied from elsewhere: logs that nobody has open, one of them without its index."""
    manifest, records = state / "queue.db", state / "dagster/history/event_log.db"
    with _databases_in_use(state):
        for path in (manifest, records):
            for ending in ("", "-wal", "-shm"):
                shutil.copy(f"{path}{ending}", f"{path}{ending}.copy")
    for path in (manifest, records):
        for ending in ("", "-wal", "-shm"):
            Path(f"{path}{ending}.copy").rename(f"{path}{ending}")
    Path(f"{manifest}-shm").unlink()
    yield


@pytest.mark.parametrize("arranged", [_at_rest, _manifest_with_log, _databases_in_use, _logs_left_behind])
def test_a_command_that_only_looks_changes_nothing(
    arranged: Callable[[Path], AbstractContextManager[None]], project: Path
) -> None:
    named = {".": "library", "x": "library/a.mp4"}
    with arranged(project / ".content-ai"):
        before = whole(project)
        for command in LOOKING:
            done = content_ai(*(named.get(one, one) for one in command), cwd=project)
            assert done.returncode == 0, done.stdout + done.stderr
            after = whole(project)
            changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
            assert (command, changed) == (command, set())
        assert "succeeded" in content_ai("queue", "list", cwd=project).stdout
