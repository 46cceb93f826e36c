"""What a run printed, as the UI reads it: real files, real runs on record, and a log that goes on being written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import JOB_TAG
from content_pipeline.dagster_runtime.run_logs import RunLogs
from content_pipeline.settings import load
from content_pipeline_tests.helpers.eventually import eventually


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "logs"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def instance(tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setenv("CONTENT_AI_STATE_DIR", str(tmp_path / "state"))
    with open_instance(load().settings) as instance:
        yield instance


def started(instance: dg.DagsterInstance, **tags: str) -> dg.DagsterRun:
    return instance.add_run(dg.DagsterRun(job_name="any", status=dg.DagsterRunStatus.STARTED, tags=tags))


def read(instance: dg.DagsterInstance, run_id: str) -> Any:
    return instance.compute_log_manager.get_log_data([run_id, "compute_logs", "step"])


def test_both_tabs_show_the_log_of_a_launched_run_from_where_they_were(
    instance: dg.DagsterInstance, logs: Path
) -> None:
    assert isinstance(instance.compute_log_manager, RunLogs)
    run = started(instance)
    assert read(instance, run.run_id).stderr is None
    (logs / f"run-{run.run_id}.log").write_bytes(b"one\n")
    first = read(instance, run.run_id)
    assert (first.stdout, first.stderr) == (b"one\n", b"one\n")
    (logs / f"run-{run.run_id}.log").write_bytes(b"one\ntwo\n")
    assert instance.compute_log_manager.get_log_data([run.run_id, "x", "y"], first.cursor).stderr == b"two\n"


def test_a_run_that_a_command_executed_is_found_by_its_job(instance: dg.DagsterInstance, logs: Path) -> None:
    run = started(instance, **{JOB_TAG: "01ABC:2"})
    (logs / "01ABC-2.log").write_bytes(b"mine\n")
    assert read(instance, run.run_id).stderr == b"mine\n"


def test_no_other_file_is_served(instance: dg.DagsterInstance, logs: Path) -> None:
    (logs.parent / "secret.log").write_bytes(b"secret")
    (logs / "run-x").mkdir()
    assert read(instance, "x/../../secret").stderr is None
    assert instance.compute_log_manager.get_log_data([]).stderr is None


def test_a_log_is_followed_until_its_run_has_ended(instance: dg.DagsterInstance, logs: Path) -> None:
    run = started(instance)
    path = logs / f"run-{run.run_id}.log"
    path.write_bytes(b"one\n")
    heard: list[bytes] = []
    subscription = instance.compute_log_manager.subscribe([run.run_id, "compute_logs", "step"])
    subscription(lambda data: heard.append(data.stderr or b""))
    assert (heard, subscription.is_complete) == ([b"one\n"], False)
    with path.open("ab") as file:
        file.write(b"two\n")
    eventually(lambda: b"".join(heard) == b"one\ntwo\n", "the next line was heard", 20)
    instance.report_run_canceled(run)
    eventually(lambda: subscription.is_complete, "it ended with the run", 20)
