"""Runs as Dagster keeps them: data versions, metadata, checks, and how failures look."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.names import OWNER_TAG
from content_pipeline.stage import spec_of
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.processing import ALL, Project


@pytest.fixture
def bursts(project: Project, samples_folder: Path) -> Project:
    recording = samples.recording(samples_folder, "bursts.mp4", seconds=16, bursts=((3, 4), (8, 9), (13, 14)))
    shutil.copy(recording, project.library / "game.mp4")
    return project


def materialization(instance: dg.DagsterInstance, stage: str, key: str) -> dg.AssetMaterialization:
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey(stage), asset_partitions=[key]), limit=1
    ).records
    return records[0].asset_materialization


def test_each_stage_tells_its_key_and_what_a_person_wants_to_know(bursts: Project) -> None:
    outcome = bursts.process()["game.mp4"]
    instance = bursts.instance()
    assert instance.get_dynamic_partitions("videos") == [outcome.key]
    found: dict[Any, Any] = {stage: materialization(instance, stage, outcome.key) for stage in ALL}
    for stage, made in found.items():
        key = made.tags["dagster/data_version"]
        assert (bursts.settings().state_dir / "artifacts" / stage / key[:2] / key).is_dir()
        assert made.tags["dagster/code_version"].startswith(f"{spec_of(stage).version}-")
        assert made.metadata["reused"].value is False
    assert found["fingerprint"].metadata["duration_s"].value == pytest.approx(16, abs=0.1)
    assert found["energy"].metadata["speed_x_realtime"].value > 1
    assert found["detections"].metadata["events"].value >= 3
    assert found["detections"].metadata["plot"].value.startswith("![")
    assert Path(str(found["detections"].metadata["plot_file"].value)).read_bytes().startswith(b"\x89PNG")
    assert found["montage"].metadata["mode"].value in ("copy", "smart", "encode")
    assert "data:image/webp" in found["montage"].metadata["contact_sheet"].value
    assert Path(str(found["montage"].metadata["contact_sheet_file"].value)).read_bytes().startswith(b"\xff\xd8")


def test_a_run_leaves_little_behind_in_dagsters_records(bursts: Project) -> None:
    bursts.process()
    with bursts.instance() as instance, instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
        (run,) = instance.get_runs()
        stored = (
            "SELECT sum(length(event)) FROM event_logs",
            "SELECT sum(length(evaluation_event)) FROM asset_check_executions",
        )
        size_bytes = sum(connection.exec_driver_sql(query).scalar_one() for query in stored)
        outputs = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_OUTPUT)
    assert size_bytes < 25_000
    # Once is enough: with the materialization.
    assert not any(output.dagster_event.step_output_data.metadata for output in outputs)


def test_checks_are_recorded_for_the_video(bursts: Project) -> None:
    outcome = bursts.process()["game.mp4"]
    instance = bursts.instance()
    run = instance.get_runs()[0]
    evaluations = [
        event.dagster_event.asset_check_evaluation_data
        for event in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    ]
    assert {(evaluation.check_name, evaluation.passed) for evaluation in evaluations} == {
        ("within_the_video", True),
        ("plays", True),
        ("duration_matches_plan", True),
        ("cuts_in_order", True),
        ("has_sound", True),
    }
    assert {evaluation.partition for evaluation in evaluations} == {outcome.key}


def test_a_failure_says_what_to_do_and_stops_what_follows(bursts: Project, samples_folder: Path) -> None:
    silent = samples.recording(samples_folder, "no_sound.mp4", seconds=2, sound=None)
    shutil.copy(silent, bursts.library / "silent.mp4")
    outcomes = bursts.process()
    assert outcomes["game.mp4"].status == "succeeded"
    assert (outcomes["silent.mp4"].status, outcomes["silent.mp4"].error_code) == ("failed", "no_audio")
    instance = bursts.instance()
    (run,) = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
    failure = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)[0].dagster_event
    assert failure.step_key == "energy"
    metadata = failure.step_failure_data.user_failure_data.metadata
    assert metadata["error_code"].value == "no_audio"
    assert metadata["error_policy"].value == "permanent"


def test_a_recording_without_highlights_is_a_success_without_montage(project: Project, samples_folder: Path) -> None:
    quiet = samples.recording(samples_folder, "quiet.mp4", seconds=6, bursts=())
    shutil.copy(quiet, project.library / "quiet.mp4")
    outcome = project.process()["quiet.mp4"]
    assert outcome.no_highlights
    assert outcome.montage is None
    assert outcome.outputs == (str(project.output / "quiet.plot.png"),), "the plot says why"
    assert os.listdir(project.output) == ["quiet.plot.png"]


def test_a_montage_that_no_longer_holds_is_taken_back(bursts: Project) -> None:
    assert bursts.process()["game.mp4"].outputs
    outcome = bursts.process(detection__rms_threshold=10.0)["game.mp4"]
    assert outcome.no_highlights
    assert os.listdir(bursts.output) == ["game.plot.png"]
    gone = ", ".join(str(bursts.output / f"game{ending}") for ending in (".json", ".mp4", ".sheet.jpg"))
    assert outcome.notes == (f"removed {gone}: no highlights with these settings",)


def test_a_half_copied_recording_is_corrupt_and_never_a_short_success(project: Project, samples_folder: Path) -> None:
    whole = samples.recording(samples_folder, "fast.mp4", seconds=8, more=("-movflags", "+faststart"))
    samples.truncated(whole, project.library / "half.mp4", 0.5)
    assert project.process()["half.mp4"].error_code == "corrupt_media"


KILLED = """
import sys
from content_pipeline_tests.helpers.processing import Project
from pathlib import Path
from content_pipeline.stages import energy
import signal
def stop(*arguments):
    print("measuring", flush=True)
    signal.pause()
energy._measure = stop
project = Project.__new__(Project)
folder = Path(sys.argv[1])
project.library, project.output, project._state = folder / "library", folder / "output", folder / "state"
project.process()
"""


def test_runs_of_a_killed_process_are_closed_and_the_work_goes_on(bursts: Project, tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], start_new_session=True)
    logs = tmp_path / "state" / "logs"
    eventually(lambda: any("measuring" in log.read_text() for log in logs.glob("*.log")), "the run is measuring")
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait(10)
    instance = bursts.instance()
    (lost,) = instance.get_runs()
    assert lost.status is dg.DagsterRunStatus.STARTED
    assert OWNER_TAG in lost.tags
    outcome = bursts.process()["game.mp4"]
    assert outcome.status == "succeeded"
    assert outcome.stages["fingerprint"] == "reused"
    assert instance.get_run_by_id(lost.run_id).status is dg.DagsterRunStatus.FAILURE
    assert list((tmp_path / "state" / "artifacts" / ".drafts").iterdir()) == []
