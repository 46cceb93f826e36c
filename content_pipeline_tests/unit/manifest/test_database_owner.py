"""Whose SQLite file it is: told without touching it, by every way there is to open it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from content_pipeline.errors import ForeignDatabase, ManifestDamaged
from content_pipeline.manifest.database import Access, open_engine
from content_pipeline.manifest.database_owner import APPLICATION_ID, Holds, look_at_file
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.migrate import upgrade
from content_pipeline.manifest.model import JobRequest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load


def executed(path: Path, *statements: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    return connection


def marked_by_another(path: Path) -> None:
    executed(path, "PRAGMA application_id=1196444487", "CREATE TABLE videos (path)").close()


def with_all_in_its_log(path: Path) -> None:
    """As a program that is running leaves it: what it wrote is in the write-ahead log only."""
    connection = executed(path, "PRAGMA journal_mode=WAL", "PRAGMA wal_autocheckpoint=0", "CREATE TABLE notes (text)")
    copies = {end: path.with_name(path.name + end).read_bytes() for end in ("", "-wal", "-shm")}
    connection.close()
    for end, content in copies.items():
        path.with_name(path.name + end).write_bytes(content)


def our_revision_and_other_tables(path: Path) -> None:
    executed(
        path,
        "PRAGMA journal_mode=WAL",
        "CREATE TABLE alembic_version (version_num)",
        "INSERT INTO alembic_version VALUES ('0002')",
        "CREATE TABLE notes (text)",
    ).close()


def a_picture(path: Path) -> None:
    path.write_bytes(b"\x89PNG" + bytes(5000))


def a_few_letters(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


FOREIGN = [marked_by_another, with_all_in_its_log, our_revision_and_other_tables, a_picture, a_few_letters]


def everything_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("make", FOREIGN)
def test_a_file_of_another_program_is_refused_and_nothing_near_it_changes(
    tmp_path: Path, make: Callable[[Path], None], access: Access
) -> None:
    make(tmp_path / "notes.db")
    before = everything_in(tmp_path)
    with pytest.raises(ForeignDatabase, match=r"notes\.db"):
        open_engine(f"sqlite:///{tmp_path}/notes.db", access)
    assert everything_in(tmp_path) == before


def test_a_folder_is_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ForeignDatabase, match="is no file"):
        open_engine(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("content", ["", "VACUUM"])
def test_what_is_empty_may_become_a_manifest(tmp_path: Path, content: str) -> None:
    executed(tmp_path / "new.db", content).close()
    (tmp_path / "new.db").touch()
    assert look_at_file(tmp_path / "new.db") is Holds.NOTHING
    engine = open_engine(f"sqlite:///{tmp_path}/new.db")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA application_id").scalar() == APPLICATION_ID
    assert look_at_file(tmp_path / "new.db") is Holds.MANIFEST


def test_a_manifest_of_the_version_before_is_known_and_gets_the_mark(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    Manifest(open_engine(f"sqlite:///{path}")).jobs.enqueue([JobRequest("/a", "/")])
    executed(path, "PRAGMA application_id=0").close()
    assert look_at_file(path) is Holds.UNMARKED_MANIFEST
    before = path.read_bytes()
    open_engine(f"sqlite:///{path}", Access.READ).dispose()
    assert path.read_bytes() == before
    assert len(Manifest(open_engine(f"sqlite:///{path}", Access.USE)).jobs.list()) == 1
    assert look_at_file(path) is Holds.MANIFEST


def test_tables_of_others_that_came_into_a_manifest_do_not_make_it_foreign(tmp_path: Path) -> None:
    open_engine(f"sqlite:///{tmp_path}/queue.db").dispose()
    executed(tmp_path / "queue.db", "PRAGMA application_id=0", "CREATE TABLE notes (text)").close()
    open_engine(f"sqlite:///{tmp_path}/queue.db").dispose()


OLD_VIDEO = """INSERT INTO videos (path, root, key, signature, quick, first_seen, last_seen)
VALUES ('/a.mp4', '/', 'a-key', 'sig', 'quick', '2026-01-01 00:00:00', '2026-01-01 00:00:00')"""


def test_who_looks_at_an_old_manifest_sees_everything_and_changes_nothing(tmp_path: Path) -> None:
    settings = load(flags={"state_dir": tmp_path}, env={}).settings
    engine = sa.create_engine(f"sqlite:///{tmp_path}/queue.db")
    upgrade(engine, "0003")
    engine.dispose()
    executed(tmp_path / "queue.db", OLD_VIDEO).close()
    before = everything_in(tmp_path)
    seen = open_manifest(settings, Access.READ)
    assert [video.key for video in seen.videos.all()] == ["a-key"]
    assert seen.jobs.list() == [] and seen.check() == []
    assert everything_in(tmp_path) == before


def test_where_nothing_is_a_look_finds_an_empty_manifest_and_makes_nothing(tmp_path: Path) -> None:
    settings = load(flags={"state_dir": tmp_path / "state"}, env={}).settings
    for access in (Access.READ, Access.USE):
        manifest = open_manifest(settings, access)
        assert manifest.jobs.list() == [] and manifest.check() == []
        assert manifest.jobs.retry() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["header", "page", "end", "name of a table"])
def test_a_manifest_that_is_damaged_is_called_so(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "queue.db"
    manifest = Manifest(open_engine(f"sqlite:///{path}"))
    manifest.jobs.enqueue([JobRequest(f"/{number}", "/") for number in range(500)])
    manifest.close()
    size = path.stat().st_size
    if damage == "end":
        os.truncate(path, size // 2)
    else:
        start, content = {
            "header": (0, os.urandom(100)),
            "page": (100, os.urandom(4000)),
            "name of a table": (path.read_bytes().index(b"job_items"), b"joc_items"),
        }[damage]
        with path.open("r+b") as file:
            file.seek(start)
            file.write(content)
    with pytest.raises(ManifestDamaged, match=r"queue\.db is damaged") as said:
        Manifest(open_engine(f"sqlite:///{path}")).jobs.list()
    assert f"mv {path} {path}.damaged" in said.value.hint
