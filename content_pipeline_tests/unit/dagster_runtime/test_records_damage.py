"""Dagster's databases deleted, emptied, cut or overwritten: one named error each, and its way out works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.errors import DagsterHomeBroken
from content_pipeline.execution.names import VIDEO_PARTITIONS
from content_pipeline.settings import Settings, load

FILES = ["history/runs.db", "history/event_log.db", "schedules/schedules.db"]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return load(flags={"state_dir": tmp_path}, env={}).settings


def use(instance: dg.DagsterInstance) -> None:
    """Something of each of the three databases."""
    instance.get_runs(limit=1)
    instance.add_dynamic_partitions(VIDEO_PARTITIONS, ["a"])
    instance.get_dynamic_partitions(VIDEO_PARTITIONS)
    instance.run_storage.set_cursor_values({"a": "1"})
    instance.all_instigator_state()


def opened_and_used(settings: Settings) -> None:
    with open_instance(settings) as instance:
        use(instance)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, 5000)


def overwritten(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def in_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100:4096] = os.urandom(3996)
    path.write_bytes(content)


def checkpointed(settings: Settings) -> None:
    """Everything is in the databases themselves, as after a while."""
    opened_and_used(settings)
    with open_instance(settings) as instance:
        for storage in (instance.run_storage, instance.event_log_storage, instance.schedule_storage):
            from content_pipeline.dagster_runtime.storage import _shrink

            _shrink(storage._conn_string)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", [emptied, cut, overwritten, in_the_middle])
def test_damaged_records_have_one_name_and_the_way_out_works(
    settings: Settings, tmp_path: Path, file: str, damage: Callable[[Path], None]
) -> None:
    checkpointed(settings)
    path = tmp_path / "dagster" / file
    damage(path)
    with pytest.raises(DagsterHomeBroken, match=re.escape(str(path))) as met:
        opened_and_used(settings)
    found = re.search(r"`(mv .*?)`", met.value.hint)
    assert found is not None
    subprocess.run(shlex.split(found[1]), check=True)
    opened_and_used(settings)
    assert path.exists() and path.with_name(path.name + ".damaged").exists()


@pytest.mark.parametrize("file", FILES)
def test_deleted_records_begin_anew_also_for_who_has_them_open(settings: Settings, tmp_path: Path, file: str) -> None:
    path = tmp_path / "dagster" / file
    with open_instance(settings) as instance:
        use(instance)
        path.unlink()
        use(instance)
        assert path.exists()
        opened_and_used(settings)
        use(instance)
    path.unlink()
    opened_and_used(settings)


def test_the_log_of_deleted_records_does_not_come_back(settings: Settings, tmp_path: Path) -> None:
    with open_instance(settings) as instance:
        instance.run_storage.set_cursor_values({"old": "1"})
        (tmp_path / "dagster" / "history" / "runs.db").unlink()
        assert instance.run_storage.get_cursor_values({"old"}) == {}
        instance.run_storage.set_cursor_values({"new": "1"})
    with open_instance(settings) as instance:
        assert instance.run_storage.get_cursor_values({"old", "new"}) == {"new": "1"}


def test_records_that_another_put_in_their_place_are_the_records(settings: Settings, tmp_path: Path) -> None:
    home = tmp_path / "dagster"
    checkpointed(settings)
    backup = (home / "history" / "runs.db").read_bytes()
    with open_instance(settings) as instance:
        instance.run_storage.set_cursor_values({"later": "1"})
        (home / "history" / "runs.db").unlink()
        for ending in ("-wal", "-shm"):
            (home / "history" / f"runs.db{ending}").unlink(missing_ok=True)
        (home / "history" / "runs.db").write_bytes(backup)
        assert instance.run_storage.get_cursor_values({"a", "later"}) == {"a": "1"}
