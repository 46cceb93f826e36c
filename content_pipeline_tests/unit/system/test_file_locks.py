from __future__ import annotations

import multiprocessing
import os
import re
import signal
from pathlib import Path

import pytest

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.system.file_locks import file_lock, remove_left_locks

FORK = multiprocessing.get_context("fork")
PROCESSES, TIMES = 6, 150
NAME = re.compile("one|held|left")


def count_up(lock: Path, counter: Path) -> None:
    for _ in range(TIMES):
        with file_lock(lock, patience_s=60) as alone:
            assert alone
            counter.write_text(str(int(counter.read_text()) + 1))


def remove_for_ever(folder: Path) -> None:
    while True:
        remove_left_locks(folder, NAME)


def hold(lock: Path, ready: object) -> None:
    with file_lock(lock, patience_s=60):
        ready.set()  # type: ignore[attr-defined]
        signal.pause()


def test_one_at_a_time_holds_a_lock_while_another_removes_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("content_pipeline.system.file_locks.TRY_AGAIN_S", 0.0005)
    counter, locks = tmp_path / "counter", tmp_path / "locks"
    counter.write_text("0")
    locks.mkdir()
    remover = FORK.Process(target=remove_for_ever, args=(locks,), daemon=True)
    writers = [FORK.Process(target=count_up, args=(locks / "one", counter)) for _ in range(PROCESSES)]
    remover.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    remover.kill()
    remover.join()
    assert [writer.exitcode for writer in writers] == [0] * PROCESSES
    assert counter.read_text() == str(PROCESSES * TIMES)


def test_a_lock_that_is_held_is_not_removed_and_that_of_a_killed_process_is(tmp_path: Path) -> None:
    ready = FORK.Event()
    holder = FORK.Process(target=hold, args=(tmp_path / "held", ready))
    holder.start()
    assert ready.wait(30)
    (tmp_path / "left").touch()
    (tmp_path / "of-a-person").touch()
    assert remove_left_locks(tmp_path, NAME) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"held", "of-a-person"}
    with file_lock(tmp_path / "held", patience_s=0) as alone:
        assert not alone
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert remove_left_locks(tmp_path, NAME) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["of-a-person"]


def test_making_artifacts_leaves_no_lock_behind(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    for key in ("a" * 64, "b" * 64):
        with store.only_one("energy", key):
            assert len(list((tmp_path / ".locks").iterdir())) == 1
    assert list((tmp_path / ".locks").iterdir()) == []
    (tmp_path / ".locks" / f"energy-{'c' * 32}").touch()
    store.sweep()
    assert list((tmp_path / ".locks").iterdir()) == []
