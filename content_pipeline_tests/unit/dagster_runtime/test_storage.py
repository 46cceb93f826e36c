"""Dagster's records: kept in one place, by a SQLite that can be trusted with it."""

from __future__ import annotations

import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from dagster._core.storage.runs.schema import RunStorageSqlMetadata

from content_pipeline.dagster_runtime.storage import (  # type: ignore[attr-defined]
    SqliteRecords,
    sqlite,
    wal_is_safe,
)


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 0), False),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 52, 0), True),
        ((4, 0, 0), True),
    ],
)
def test_a_write_ahead_log_is_used_only_where_it_is_safe(version: tuple[int, int, int], safe: bool) -> None:
    assert wal_is_safe(version) is safe


def journals(folder: Path) -> set[str]:
    found = set()
    for path in folder.glob("*/*.db"):
        connection = sqlite.connect(path)
        found.add(connection.execute("PRAGMA journal_mode").fetchone()[0])
        connection.close()
    return found


def test_records_go_to_a_write_ahead_log_if_it_is_safe(tmp_path: Path) -> None:
    SqliteRecords(str(tmp_path)).dispose()

    assert journals(tmp_path) == {"wal" if wal_is_safe(sqlite.sqlite_version_info) else "truncate"}


@pytest.mark.parametrize("left", ["nothing", "tables"])
def test_a_database_whose_maker_was_killed_is_made_whole_and_loses_nothing(tmp_path: Path, left: str) -> None:
    (tmp_path / "history").mkdir()
    connection = sqlite3.connect(tmp_path / "history" / "runs.db")
    if left == "tables":
        RunStorageSqlMetadata.create_all(sa.create_engine(f"sqlite:///{tmp_path}/history/runs.db"))
    connection.close()
    (tmp_path / "history" / "runs.db").touch()

    records = SqliteRecords(str(tmp_path))
    records.run_storage.set_cursor_values({"a": "1"})

    other = multiprocessing.get_context("spawn").Process(target=expect_cursor, args=(str(tmp_path),))
    other.start()
    other.join()
    assert other.exitcode == 0


def expect_cursor(folder: str) -> None:
    assert SqliteRecords(folder).run_storage.get_cursor_values({"a"}) == {"a": "1"}


def count_in_turns(folder: str) -> None:
    records = SqliteRecords(folder)
    for number in range(30):
        records.run_storage.set_cursor_values({f"{multiprocessing.current_process().name}-{number}": "seen"})


def test_many_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=count_in_turns, args=(str(tmp_path),), name=f"w{n}") for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    wanted = {f"w{writer}-{number}" for writer in range(4) for number in range(30)}
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert set(SqliteRecords(str(tmp_path)).run_storage.get_cursor_values(wanted)) == wanted


def test_the_same_partition_can_be_added_by_several_at_once(tmp_path: Path) -> None:
    keys = [f"video-{number}" for number in range(100)]
    together = threading.Barrier(4, timeout=60)

    def add(_number: int) -> None:
        events = SqliteRecords(str(tmp_path)).event_log_storage
        for key in keys:
            together.wait()
            events.add_dynamic_partitions("videos", [key])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    events = SqliteRecords(str(tmp_path)).event_log_storage
    events.add_dynamic_partitions("videos", [])
    assert sorted(events.get_dynamic_partitions("videos")) == sorted(keys)


def test_opening_the_records_again_keeps_the_locks_on_them(tmp_path: Path) -> None:
    """Without them another process takes itself for the only one, and may remove the log that is written to."""
    path = tmp_path / "history" / "event_log.db"
    events = SqliteRecords(str(tmp_path)).event_log_storage
    events.add_dynamic_partitions("videos", ["a"])
    SqliteRecords(str(tmp_path))
    code = (
        f"import sys, {sqlite.__name__} as s; s.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode=delete')"
    )
    alone = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert "database is locked" in alone.stderr
