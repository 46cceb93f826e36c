"""Which RQ queue a run goes to, in which order a worker looks into them, and which launcher the settings choose."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.errors import BadSettings
from content_pipeline.execution.launch import Launch
from content_pipeline.launchers.configured_launcher import expect_engine
from content_pipeline.launchers.local.run_launcher import WarmRunLauncher
from content_pipeline.launchers.queue_launcher import launch_of, launcher_of
from content_pipeline.launchers.rq.announcements import class_of, execute_run, kind_of, queue_names
from content_pipeline.launchers.rq.run_launcher import RqRunLauncher
from content_pipeline.settings import load
from content_pipeline_tests.conformance import postgres


@pytest.mark.parametrize(
    ("priority", "expected"), [(10, "high"), (1, "high"), (0, "normal"), (-5, "low"), (-10, "low")]
)
def test_a_priority_belongs_to_one_of_three_classes(priority: int, expected: str) -> None:
    assert class_of(priority) == expected


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        (Launch("r", "process_video", "game-1"), "processing"),
        (Launch("r", "calibrate_library", "lib"), "calibration"),
        (Launch("r", "__ASSET_JOB", "game-1", assets=("energy",)), "processing"),
        (Launch("r", "retention"), "other"),
    ],
)
def test_a_run_goes_to_the_queue_of_its_kind(launch: Launch, expected: str) -> None:
    assert kind_of(launch) == expected


def test_a_worker_looks_for_the_high_ones_of_every_kind_first() -> None:
    assert queue_names(["processing", "other"]) == [
        "content-ai:processing:high",
        "content-ai:other:high",
        "content-ai:processing:normal",
        "content-ai:other:normal",
        "content-ai:processing:low",
        "content-ai:other:low",
    ]


def test_a_worker_looks_first_for_what_few_can_do_and_never_for_what_it_cannot() -> None:
    assert queue_names(["processing"], ["nvenc", "fast-disk"]) == [
        "content-ai:processing:nvenc:high",
        "content-ai:processing:fast-disk:high",
        "content-ai:processing:high",
        "content-ai:processing:nvenc:normal",
        "content-ai:processing:fast-disk:normal",
        "content-ai:processing:normal",
        "content-ai:processing:nvenc:low",
        "content-ai:processing:fast-disk:low",
        "content-ai:processing:low",
    ]


def test_rq_s_own_worker_is_told_that_it_cannot_execute_these_runs() -> None:
    with pytest.raises(RuntimeError, match="content-ai worker --engine rq"):
        execute_run()


def test_no_launch_holds_the_address_of_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTENT_AI_REDIS_URL", "redis://:s3cr3t@host")
    launch = launch_of(dg.DagsterRun(job_name="process_video"))
    assert "s3cr3t" not in str(launch.as_json())


def test_the_setting_chooses_the_launcher_that_one_dagster_yaml_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from content_pipeline.dagster_runtime.instance import open_instance

    monkeypatch.chdir(tmp_path)
    with open_instance(load().settings) as instance:
        assert isinstance(launcher_of(instance), WarmRunLauncher)
    monkeypatch.setenv("CONTENT_AI_DB", postgres.server().url(postgres.server().create()))
    monkeypatch.setenv("CONTENT_AI_DAGSTER_STORAGE", "postgres")
    monkeypatch.setenv("CONTENT_AI_LAUNCHER__ENGINE", "rq")
    monkeypatch.setenv("CONTENT_AI_REDIS_URL", "redis://nowhere.invalid")
    with open_instance(load().settings) as instance:
        assert isinstance(launcher_of(instance), RqRunLauncher)
        expect_engine(load().settings, launcher_of(instance))
    with pytest.raises(BadSettings, match="names WarmRunLauncher"):
        expect_engine(load().settings, WarmRunLauncher())
