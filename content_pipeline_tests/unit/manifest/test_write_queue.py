"""Writers of one SQLite file: first come, first served, whoever waits, ends or dies in between."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from content_pipeline.errors import DatabaseBusy
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobRequest
from content_pipeline.manifest.write_queue import ticket_file, wait_to_write
from content_pipeline_tests.helpers.eventually import eventually

TIMEOUT_S = 60.0
fork = multiprocessing.get_context("fork")
_all: list[BaseProcess] = []


@pytest.fixture(autouse=True)
def _leave_no_process_behind() -> Iterator[None]:
    yield
    for process in _all:
        process.kill()
        process.join()
    _all.clear()


def tickets_taken(database: Path) -> int:
    return int.from_bytes(ticket_file(database).read_bytes()[:8], "little")


def waiting_writer(database: Path, name: str) -> BaseProcess:
    """A process that waits in the queue, behind everybody who is there."""
    before = tickets_taken(database)
    process = fork.Process(target=write_name, args=(database, name), daemon=True)
    process.start()
    _all.append(process)
    eventually(lambda: tickets_taken(database) == before + 1, "it waits in the queue")
    return process


def write_name(database: Path, name: str) -> None:
    with wait_to_write(database, TIMEOUT_S), database.open("a") as file:
        file.write(name)


def written(database: Path, number: int) -> str:
    eventually(lambda: database.exists() and len(database.read_text()) >= number, f"{number} turns were taken")
    return database.read_text()


def test_writers_come_in_the_order_in_which_they_asked(tmp_path: Path) -> None:
    database = tmp_path / "order"
    with wait_to_write(database, TIMEOUT_S):
        for name in "abcdefgh":
            waiting_writer(database, name)
        assert not database.exists()
    assert written(database, 8) == "abcdefgh"


def test_a_writer_that_is_killed_while_it_waits_or_writes_keeps_nobody(tmp_path: Path) -> None:
    database = tmp_path / "order"
    with wait_to_write(database, TIMEOUT_S):
        _, doomed, _ = (waiting_writer(database, name) for name in "abc")
        doomed.kill()
        doomed.join()
        assert not database.exists()  # the first still waits, and so does the third
    assert written(database, 2) == "ac"

    holder = fork.Process(target=hold, args=(database,), daemon=True)
    holder.start()
    _all.append(holder)
    eventually(lambda: database.read_text().endswith("!"), "the last one had its turn")
    waiting_writer(database, "d")
    holder.kill()
    assert written(database, 4) == "ac!d"


def hold(database: Path) -> None:
    with wait_to_write(database, TIMEOUT_S):
        with database.open("a") as file:
            file.write("!")
        signal.pause()


def test_a_child_that_lives_on_does_not_keep_its_parents_turn(tmp_path: Path) -> None:
    database = tmp_path / "order"
    with wait_to_write(database, TIMEOUT_S):
        child = fork.Process(target=signal.pause, daemon=True)
        child.start()
        _all.append(child)
    with wait_to_write(database, 5.0):
        pass


def test_who_waits_too_long_for_its_turn_is_told_that_the_manifest_is_busy(tmp_path: Path) -> None:
    with wait_to_write(tmp_path / "order", TIMEOUT_S):
        began_s = time.monotonic()
        with pytest.raises(DatabaseBusy, match="busy"), wait_to_write(tmp_path / "order", 0.2):
            pass
        assert time.monotonic() - began_s < 5.0
    with wait_to_write(tmp_path / "order", 0.2):
        pass


def test_every_writing_operation_waits_for_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("content_pipeline.manifest.database.BUSY_TIMEOUT_MS", 100)
    database = tmp_path / "manifest.db"
    manifest = Manifest(open_engine(f"sqlite:///{database}"))
    with wait_to_write(database, TIMEOUT_S):
        assert manifest.jobs.list() == []  # who reads does not wait
        with pytest.raises(DatabaseBusy):
            manifest.jobs.enqueue([JobRequest("/a", "/")])
    assert manifest.jobs.enqueue([JobRequest("/a", "/")]) == 1


def test_where_no_turns_can_be_taken_sqlite_decides_alone(tmp_path: Path) -> None:
    ticket_file(tmp_path / "manifest.db").mkdir()  # as good as anything that keeps a file from being opened
    manifest = Manifest(open_engine(f"sqlite:///{tmp_path}/manifest.db"))
    assert manifest.jobs.enqueue([JobRequest("/a", "/")]) == 1
