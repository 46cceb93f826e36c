from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_pipeline.dagster_runtime.compressed_events import compressed, plain
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.settings import Settings, load

EVENT = '{"__class__": "EventLogEntry", "user_message": "hello"}'


@given(st.text())
def test_what_is_compressed_comes_back(text: str) -> None:
    assert plain(compressed(text)) == text


def test_what_was_written_once_can_be_read_for_ever() -> None:
    assert plain(bytes.fromhex("0178bbe8fd22342394c1d0cdcd48cdc9c957aa0500129c12e8")) == EVENT


def test_what_was_written_before_is_read_as_it_is() -> None:
    assert plain(EVENT) == EVENT


def test_what_is_written_later_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="newer version"):
        plain(b"\x02...")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(flags={"state_dir": tmp_path / "state"}, env={}).settings


def materialize(instance: dg.DagsterInstance, word: str) -> str:
    @dg.asset(check_specs=[dg.AssetCheckSpec("fine", asset="thing")])
    def thing() -> dg.MaterializeResult:
        return dg.MaterializeResult(
            metadata={"word": word}, check_results=[dg.AssetCheckResult(check_name="fine", passed=True)]
        )

    return dg.materialize([thing], instance=instance).run_id


def test_dagster_finds_compressed_and_plain_events_alike(settings: Settings) -> None:
    key = dg.AssetKey("thing")
    with open_instance(settings) as instance:
        before = materialize(instance, "before")
        with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
            # As an earlier version wrote them.
            for table, column in (("event_logs", "event"), ("asset_check_executions", "evaluation_event")):
                for number, event in connection.exec_driver_sql(f"SELECT id, {column} FROM {table}").fetchall():
                    assert isinstance(event, bytes)
                    update = f"UPDATE {table} SET {column} = ? WHERE id = ?"
                    connection.exec_driver_sql(update, (plain(event), number))
        after = materialize(instance, "after")
        words = [
            one.asset_materialization.metadata["word"].value
            for one in instance.fetch_materializations(key, limit=2).records
        ]
        assert words == ["after", "before"]
        latest = instance.get_latest_materialization_event(key)
        assert latest.asset_materialization.metadata["word"].value == "after"
        for run_id in (before, after):
            kinds = {log.dagster_event.event_type for log in instance.all_logs(run_id) if log.dagster_event}
            assert {dg.DagsterEventType.RUN_SUCCESS, dg.DagsterEventType.STEP_OUTPUT} <= kinds
        check = dg.AssetCheckKey(key, "fine")
        checks = instance.event_log_storage.get_asset_check_execution_history(check, limit=5)
        assert [one.event.dagster_event.asset_check_evaluation_data.passed for one in checks] == [True, True]
