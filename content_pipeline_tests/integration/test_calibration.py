"""A library is tuned: its videos are decided anew from cached curves, and nobody else's are."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.names import JOB_TAG
from content_pipeline.definitions import build_definitions
from content_pipeline.defs.sensors.dispatch_jobs import due_runs
from content_pipeline.errors import (
    BadSettings,
    BeingCalibrated,
    CalibrationStopped,
    NoCurves,
    Paused,
    RetryPolicy,
    UnknownLibrary,
)
from content_pipeline.execution import job_kinds as handlers
from content_pipeline.execution.job_kinds.calibration import Calibrated
from content_pipeline.execution.names import CALIBRATE_LIBRARY
from content_pipeline.execution.outcome import Outcome
from content_pipeline.job_kinds import CALIBRATION
from content_pipeline.library.keys import library_key
from content_pipeline.library.plan import Action
from content_pipeline.library.scan import scan
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure, JobRequest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.calibrating import Calibrator
from content_pipeline.services.planner import Planner, command_terms
from content_pipeline.services.processing import NoProgress, Processor
from content_pipeline.settings import Settings, load
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project
from content_pipeline_tests.helpers.processing import Project, computed

# So strict that nothing is found: the effect on any recording is beyond doubt.
NOTHING: dict[str, Any] = {"calibration__values": "100"}
SHORT: dict[str, Any] = {"detection__event_lookback_s": 0.5, "processing__context_padding_s": 0.2}


@pytest.fixture
def bursts(samples_folder: Path) -> Path:
    return samples.recording(samples_folder, "three.mp4", seconds=30, bursts=((4, 6), (14, 16), (24, 26)))


@pytest.fixture
def other(samples_folder: Path) -> Path:
    return samples.recording(samples_folder, "two.mp4", seconds=20, bursts=((4, 6), (12, 14)))


@pytest.fixture
def rising(samples_folder: Path) -> Path:
    """Bursts that swell: the higher the threshold, the later each begins to count."""
    bursts = (10, 20), (30, 40)
    swelling = "volume='if(between(mod(t,20),10,20)*lt(t,40),0.1+0.09*(mod(t,20)-10),1)':eval=frame"
    return samples.recording(samples_folder, "rising.mp4", seconds=60, bursts=bursts, more=("-af", swelling))


@pytest.fixture
def two_libraries(project: Project, bursts: Path, other: Path) -> Project:
    """`library` with one recording and `elsewhere` with another, both processed."""
    shutil.copy(bursts, project.library / "game.mp4")
    (project.library.parent / "elsewhere").mkdir()
    shutil.copy(other, project.library.parent / "elsewhere" / "other.mp4")
    assert process(project)["game.mp4"].facts["clips"] > 0
    assert process(project, "elsewhere")["other.mp4"].facts["clips"] > 0
    return project


def settings_of(project: Project, **changed: Any) -> Settings:
    return project.settings(**{**SHORT, **changed})


def processor_of(project: Project, folder: str, settings: Settings) -> tuple[Processor, Any]:
    found = scan(project.library.parent / folder, settings.library)
    return Processor(settings, open_manifest(settings), NoProgress()), found


def process(project: Project, folder: str = "library", **changed: Any) -> dict[str, Outcome]:
    processor, found = processor_of(project, folder, settings_of(project, **changed))
    processor.work(build_definitions, processor.enqueue(found))
    return {outcome.path.name: outcome for outcome in processor.outcomes}


def planned(project: Project, folder: str = "library", **changed: Any) -> dict[str, tuple[Action, dict[str, str]]]:
    settings = settings_of(project, **changed)
    planner = Planner(settings, open_manifest(settings), command_terms(settings))
    videos = planner.plan(scan(project.library.parent / folder, settings.library)).videos
    return {video.found.path.name: (video.action, dict(video.reasons)) for video in videos}


def calibrator(project: Project, **changed: Any) -> Calibrator:
    settings = settings_of(project, **changed)
    return Calibrator(settings, open_manifest(settings))


def request_of(calibrator: Calibrator, folder: Path) -> JobRequest:
    return handlers.CALIBRATION.request(folder, calibrator.settings, calibrator.manifest)


def calibrate(project: Project, folder: str = "library", **changed: Any) -> float | None:
    done = calibrator(project, **changed).calibrate(project.library.parent / folder, "asked for by a test")
    return None if done.applied is None else done.applied.value


def job_of(project: Project, folder: str = "library") -> Job:
    job = calibrator(project).manifest.jobs.find(CALIBRATION, str(project.library.parent / folder))
    assert job is not None
    return job


# --- what it changes


def test_an_applied_value_re_decides_the_videos_of_its_library_decodes_nothing_and_leaves_the_others(
    two_libraries: Project,
) -> None:
    assert calibrate(two_libraries, **NOTHING) == 100
    assert planned(two_libraries) == {
        "game.mp4": (
            Action.REDO,
            {"detections": "detection.sensitivity 2.5 -> 100.0 (calibration)", "montage": "follows detections"},
        )
    }
    assert planned(two_libraries, "elsewhere") == {"other.mp4": (Action.KEEP, {})}
    done = process(two_libraries)["game.mp4"]
    assert computed(done) == {"detections", "montage"}
    assert done.no_highlights
    assert computed(process(two_libraries, "elsewhere")["other.mp4"]) == set()
    assert computed(process(two_libraries)["game.mp4"]) == set()


def test_after_a_reset_the_old_artifacts_are_used_again(two_libraries: Project) -> None:
    before = process(two_libraries)["game.mp4"].outputs
    calibrate(two_libraries, **NOTHING)
    process(two_libraries)
    assert calibrator(two_libraries).manifest.calibrations.reset(str(two_libraries.library)).was_applied is not None
    action, reasons = planned(two_libraries)["game.mp4"]
    assert (action, reasons["detections"]) == (Action.REDO, "detection.sensitivity 100.0 -> 2.5")
    back = process(two_libraries)["game.mp4"]
    assert computed(back) <= {"montage"}  # published anew, and that is all
    assert back.outputs == before
    assert computed(process(two_libraries)["game.mp4"]) == set()


def test_a_threshold_given_by_flag_wins_for_that_call(two_libraries: Project) -> None:
    calibrate(two_libraries, **NOTHING)
    assert planned(two_libraries, detection__sensitivity=2.5) == {"game.mp4": (Action.KEEP, {})}
    assert planned(two_libraries)["game.mp4"][0] is Action.REDO


def test_equal_copies_in_two_libraries_follow_one_of_them_and_are_not_done_in_turns(
    two_libraries: Project, bursts: Path
) -> None:
    shutil.copy(bursts, two_libraries.library.parent / "elsewhere" / "copy.mp4")
    process(two_libraries, "elsewhere")
    calibrate(two_libraries, **NOTHING)
    assert planned(two_libraries, "elsewhere")["copy.mp4"][0] is Action.REDO
    assert planned(two_libraries, "elsewhere")["other.mp4"][0] is Action.KEEP
    process(two_libraries)
    assert computed(process(two_libraries, "elsewhere")["copy.mp4"]) == set()
    for folder, name in (("library", "game.mp4"), ("elsewhere", "copy.mp4")):
        assert planned(two_libraries, folder)[name] == (Action.KEEP, {})


def test_a_failed_video_is_not_tried_again_for_a_calibration(two_libraries: Project) -> None:
    (two_libraries.library / "bad.mp4").write_text("this is no video")
    assert process(two_libraries)["bad.mp4"].error_code == "not_a_video"
    calibrate(two_libraries, **NOTHING)
    assert planned(two_libraries)["bad.mp4"] == (Action.LEAVE, {})


def test_a_new_recording_of_a_calibrated_library_is_made_with_the_calibration_from_the_start(
    two_libraries: Project, other: Path
) -> None:
    calibrate(two_libraries, **NOTHING)
    shutil.copy(other, two_libraries.library / "new.mp4")
    assert process(two_libraries)["new.mp4"].no_highlights
    assert planned(two_libraries)["new.mp4"] == (Action.KEEP, {})


# --- what it says


def test_the_table_says_what_processing_would_choose(two_libraries: Project) -> None:
    made = calibrator(two_libraries, calibration__values="1,100").look(two_libraries.library)
    found = made.artifact.read_json("calibration.json")
    rows = {row["value"]: row for row in found["table"]}
    assert list(rows) == [1, 2.5, 100]
    chosen = process(two_libraries)["game.mp4"].facts
    assert (rows[2.5]["clips"], rows[2.5]["is_now"]) == (chosen["highlights"], True)
    assert (rows[2.5]["came"], rows[2.5]["went"]) == (0, 0)
    assert (rows[100]["clips"], rows[100]["came"], rows[100]["went"]) == (0, 0, chosen["highlights"])
    stricter = process(two_libraries, detection__sensitivity=1)["game.mp4"].facts
    assert rows[1]["clips"] == stricter["highlights"]


def test_the_same_inputs_give_the_same_calibration_and_looking_applies_nothing(two_libraries: Project) -> None:
    first = calibrator(two_libraries).look(two_libraries.library)
    again = calibrator(two_libraries).look(two_libraries.library)
    assert (first.reused, again.reused, first.key) == (False, True, again.key)
    assert planned(two_libraries)["game.mp4"][0] is Action.KEEP
    assert calibrator(two_libraries).manifest.jobs.find(CALIBRATION, str(two_libraries.library)) is None
    found = again.artifact.read_json("calibration.json")["inputs"]
    assert [video["video"] for video in found["videos"]] == [process(two_libraries)["game.mp4"].key]


def test_what_is_shared_over_processes_gives_the_same_table(
    two_libraries: Project, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(other, two_libraries.library / "second.mp4")
    process(two_libraries)
    alone = calibrator(two_libraries).look(two_libraries.library).artifact.read_json("calibration.json")["table"]
    shutil.rmtree(two_libraries.settings().state_dir / "artifacts" / "calibration")
    monkeypatch.setattr("content_pipeline.stages.calibration.WORTH_FORKING", 0)
    settings = settings_of(two_libraries)
    shared = Calibrator(settings, open_manifest(settings), cores=2).look(two_libraries.library)
    assert not shared.reused
    assert shared.artifact.read_json("calibration.json")["table"] == alone


def test_videos_without_curves_are_left_out_and_counted(two_libraries: Project, other: Path) -> None:
    shutil.copy(other, two_libraries.library / "new.mp4")
    processor, found = processor_of(two_libraries, "library", settings_of(two_libraries))
    processor.enqueue(found)
    facts = calibrator(two_libraries).look(two_libraries.library).artifact.facts
    assert (facts["videos"], facts["without_curves"]) == (1, 1)


def test_what_cannot_be_calibrated_is_refused_by_name(two_libraries: Project, bursts: Path) -> None:
    with pytest.raises(UnknownLibrary, match="no video is known"):
        calibrate(two_libraries, "nowhere")
    with pytest.raises(UnknownLibrary, match=r"belong to .*elsewhere"):
        calibrate(two_libraries, "elsewhere/inner")
    with pytest.raises(BadSettings, match=r"rms_threshold.*less than or equal to 10"):
        calibrate(two_libraries, calibration__setting="rms_threshold", calibration__values="0.1,11")
    assert calibrator(two_libraries).manifest.jobs.find(CALIBRATION, str(two_libraries.library)) is None
    shutil.rmtree(two_libraries.settings().state_dir / "artifacts" / "energy")
    with pytest.raises(NoCurves, match="no video has curves yet"):
        calibrate(two_libraries, **NOTHING)
    failed = job_of(two_libraries)
    assert (failed.status, failed.error_code) == (State.FAILED, "no_curves")


# --- as a job


def test_a_calibration_is_a_job_with_its_results_and_its_history(two_libraries: Project) -> None:
    value = calibrate(two_libraries, calibration__montage_s=0.01, calibration__values="1,100")
    job = job_of(two_libraries)
    assert value is not None and 2.5 <= value < 100  # the strictest of which something is left
    assert (job.status, job.results["value"], job.results["applied"]) == (State.SUCCEEDED, value, True)
    assert job.results["target"] == {"kind": "montage_s", "amount": 0.01}
    assert job.results["inputs"] == 1
    assert [row["value"] for row in job.results["table"]] == sorted({1, 2.5, 100, value})
    artifacts = two_libraries.settings().state_dir / "artifacts" / "calibration"
    assert [path.name for path in artifacts.glob("*/*")] == [job.stage_keys["calibration"]]
    manifest = calibrator(two_libraries).manifest
    assert [one.reason for one in manifest.jobs.history(job.job_id)] == ["asked for by a test", "claimed", "succeeded"]
    assert manifest.check() == []


def test_without_a_target_nothing_is_applied(two_libraries: Project) -> None:
    assert calibrate(two_libraries) is None
    assert job_of(two_libraries).results["applied"] is False
    assert planned(two_libraries)["game.mp4"][0] is Action.KEEP


def test_two_do_not_calibrate_one_library_at_a_time(two_libraries: Project) -> None:
    manifest = calibrator(two_libraries).manifest
    calibrate(two_libraries)
    manifest.jobs.mark_dirty(JobFilter(job_ids=[job_of(two_libraries).job_id]), "again")
    (held,) = manifest.jobs.claim(ClaimRequest("another host:x:1:1", kind=CALIBRATION))
    with pytest.raises(BeingCalibrated, match="another host"):
        calibrate(two_libraries, **NOTHING)
    manifest.jobs.release(held.lease, "given back")
    assert calibrate(two_libraries, **NOTHING) == 100


def test_a_cancelled_calibration_stops_and_applies_nothing(two_libraries: Project) -> None:
    manifest = calibrator(two_libraries).manifest

    def cancel(_stage: str, _fraction: float) -> None:
        manifest.jobs.cancel(JobFilter(kind=CALIBRATION))

    settings = settings_of(two_libraries, queue__heartbeat_s=1e-9, **NOTHING)
    with pytest.raises(CalibrationStopped):
        Calibrator(settings, manifest, progress=cancel).calibrate(two_libraries.library, "asked for by a test")
    assert job_of(two_libraries).status is State.CANCELLED
    assert planned(two_libraries)["game.mp4"][0] is Action.KEEP
    assert manifest.check() == []


def test_one_that_is_cancelled_after_its_last_heartbeat_applies_nothing_either(two_libraries: Project) -> None:
    manifest = calibrator(two_libraries).manifest

    def cancel(_stage: str, _fraction: float) -> None:
        manifest.jobs.cancel(JobFilter(kind=CALIBRATION))

    settings = settings_of(two_libraries, queue__heartbeat_s=29, **NOTHING)
    with pytest.raises(CalibrationStopped):
        Calibrator(settings, manifest, progress=cancel).calibrate(two_libraries.library, "asked for by a test")
    assert job_of(two_libraries).status is State.CANCELLED
    assert planned(two_libraries)["game.mp4"][0] is Action.KEEP
    assert manifest.check() == []


def test_one_that_is_interrupted_goes_back_to_the_queue(two_libraries: Project) -> None:
    def interrupt(_stage: str, _fraction: float) -> None:
        raise KeyboardInterrupt

    settings = settings_of(two_libraries, **NOTHING)
    manifest = open_manifest(settings)
    handlers_before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with pytest.raises(KeyboardInterrupt):
            Calibrator(settings, manifest, progress=interrupt).calibrate(two_libraries.library, "asked for by a test")
    finally:
        for number, before in handlers_before.items():  # who drains does not want to be interrupted again
            signal.signal(number, before)
    job = job_of(two_libraries)
    assert (job.status, job.attempt_count) == (State.PENDING, 0)
    assert calibrate(two_libraries, **NOTHING) == 100
    assert manifest.check() == []


def test_while_the_work_is_paused_a_calibration_waits_and_says_so(two_libraries: Project) -> None:
    manifest = calibrator(two_libraries).manifest
    calibrate(two_libraries)
    manifest.jobs.mark_dirty(JobFilter(job_ids=[job_of(two_libraries).job_id]), "again")
    (held,) = manifest.jobs.claim(ClaimRequest("worker", kind=CALIBRATION))
    manifest.jobs.fail(held.lease, JobFailure("disk_full", "no room", RetryPolicy.ENVIRONMENTAL))
    with pytest.raises(Paused, match="is waiting: work is paused"):
        calibrate(two_libraries, **NOTHING)
    assert job_of(two_libraries).options["calibration"]["values"] == [100.0]
    manifest.breakers.close()
    assert calibrate(two_libraries, **NOTHING) == 100


@pytest.mark.parametrize(
    ("point", "state"),
    [
        ("claimed", State.RUNNING),  # the command died, and nobody says so of the job
        ("calibration_sealed", State.PENDING),  # its child died, and the command gave the job back
        ("calibration_decided", State.PENDING),
    ],
)
def test_a_killed_calibration_is_brought_back_and_done_with_the_same_target(
    two_libraries: Project, point: str, state: State
) -> None:
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.environ["CONTENT_AI_KILL_AT"] = f"child:{point}"
            sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - ends with the process
            calibrate(two_libraries, **NOTHING)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended == (-signal.SIGKILL if state is State.RUNNING else 0)
    assert job_of(two_libraries).status is state
    assert planned(two_libraries)["game.mp4"][0] is Action.KEEP
    # Whoever takes it up next, without a target of their own.
    taken = calibrator(two_libraries).take(job_of(two_libraries).job_id)
    assert taken is not None and taken.applied is not None and taken.applied.value == 100
    job = job_of(two_libraries)
    assert (job.status, job.claim_count) == (State.SUCCEEDED, 2)
    assert calibrator(two_libraries).manifest.check() == []


def test_one_that_is_taken_up_again_goes_by_all_that_it_was_asked_under(two_libraries: Project) -> None:
    asked = calibrator(two_libraries, detection__preset="classic", output__max_segments=1, **NOTHING)
    asked.manifest.jobs.ask(request_of(asked, two_libraries.library), "asked for by a test")
    taken = calibrator(two_libraries).take(job_of(two_libraries).job_id)
    assert taken is not None and taken.applied is not None
    assert (taken.applied.preset, taken.applied.value) == ("classic", 100)
    used = taken.result.artifact.read_json("calibration.json")["inputs"]["settings"]
    assert (used["detection.preset"], used["output.max_segments"]) == ("classic", 1)
    assert taken.result.key == asked.look(two_libraries.library).key


@pytest.mark.parametrize(
    "options", [{"calibration": {"values": ["much"]}}, {"detection": "loud"}, {"output": {"gone": 1}}]
)
def test_one_that_cannot_be_understood_fails_by_name_and_the_next_is_done(
    two_libraries: Project, options: dict[str, Any]
) -> None:
    asked = calibrator(two_libraries, **NOTHING)
    request = request_of(asked, two_libraries.library)
    asked.manifest.jobs.ask(replace(request, options=options), "asked for by a test")
    asked.manifest.jobs.ask(request_of(asked, two_libraries.library.parent / "elsewhere"), "asked for by a test")
    outcomes = {Path(job.library).name: outcome for job, outcome in calibrator(two_libraries).take_all()}
    assert isinstance(outcomes["library"], BadSettings)
    assert isinstance(outcomes["elsewhere"], Calibrated) and outcomes["elsewhere"].applied is not None
    failed = job_of(two_libraries)
    assert (failed.status, failed.error_code) == (State.FAILED, "bad_settings")


# --- the same target, and none that can be met


def test_the_same_target_gives_the_same_value_again_and_there_is_nothing_to_do(project: Project, rising: Path) -> None:
    shutil.copy(rising, project.library / "game.mp4")
    process(project)
    target: dict[str, Any] = {"calibration__values": "1,9", "calibration__montage_s": 4.0}
    first = calibrate(project, **target)
    assert first not in (None, 1, 2.5, 9)  # one between them was looked for
    process(project)
    assert [calibrate(project, **target) for _ in range(3)] == [first] * 3
    assert planned(project)["game.mp4"] == (Action.KEEP, {})
    calibrate(project, **NOTHING)
    assert calibrate(project, **target) == first


def test_where_the_setting_makes_no_difference_nothing_is_applied_and_the_other_is_named(
    two_libraries: Project,
) -> None:
    # The fixed level of the classic detector is far above anything that the sensitivity asks for.
    fixed = {"detection__preset": "classic", "detection__rms_threshold": 9.0, "calibration__montage_s": 5}
    done = calibrator(two_libraries, **fixed).calibrate(two_libraries.library, "asked for by a test")
    assert done.applied is None
    assert "sensitivity makes no difference here" in done.describe() and "--setting rms_threshold" in done.describe()
    found = done.result.artifact.read_json("calibration.json")
    assert (found["value"], [row["is_chosen"] for row in found["table"]].count(True)) == (None, 0)
    assert calibrator(two_libraries).manifest.calibrations.of_library(two_libraries.library) is None


# --- in Dagster


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bursts: Path) -> Iterator[LaunchedProject]:
    with launched_project(tmp_path, monkeypatch) as found:
        shutil.copy(bursts, found.library / "game.mp4")
        found.enqueue()
        (run,) = found.launch_due().values()
        assert found.ends(run) is dg.DagsterRunStatus.SUCCESS
        yield found


def launch(project: LaunchedProject, tag: str | None = None) -> str:
    key = library_key(project.library)
    with project.instance() as instance:
        instance.add_dynamic_partitions("libraries", [key])
        job = build_definitions(project.settings).resolve_job_def(CALIBRATE_LIBRARY)
        run = internals.create_run(instance, job, key, {} if tag is None else {JOB_TAG: tag})
        instance.launch_run(run.run_id, None)
        return run.run_id


def materialized(project: LaunchedProject) -> dict[str, Any]:
    with project.instance() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey("calibration"))
        assert event is not None and event.asset_materialization is not None
        metadata = dict(event.asset_materialization.metadata)
        values = metadata.pop("values").records  # type: ignore[attr-defined]
        return {**{name: entry.value for name, entry in metadata.items()}, "values": values}


def test_the_asset_calibrates_its_library_and_a_worker_that_was_warm_before_follows(launched: LaunchedProject) -> None:
    supervisor = launched.supervisor()
    launched.set(CALIBRATION__VALUES="100")
    assert launched.ends(launch(launched)) is dg.DagsterRunStatus.SUCCESS
    said = materialized(launched)
    assert (said["setting"], said["value"], said["applied"], said["videos"]) == ("sensitivity", 100, "yes", 1)
    assert [record.data["value"] for record in said["values"]] == [2.5, 100]
    job = launched.manifest.jobs.find(CALIBRATION, str(launched.library))
    assert job is not None and job.status is State.SUCCEEDED
    launched.enqueue()
    (run,) = launched.launch_due().values()
    assert launched.ends(run) is dg.DagsterRunStatus.SUCCESS
    assert launched.supervisor() == supervisor
    video = launched.job("game.mp4")
    assert (video.status, video.results["facts"]["highlights"]) == (State.SUCCEEDED, 0)
    assert video.cost["energy"]["reused"] and not video.cost["detections"]["reused"]
    launched.enqueue()
    assert launched.launch_due() == {}


def test_a_calibration_that_waits_is_delivered_by_a_run_with_what_was_asked_of_it(launched: LaunchedProject) -> None:
    asked = load(flags={"calibration.values": "100"}).settings
    manifest = launched.manifest
    request = handlers.CALIBRATION.request(launched.library, asked, manifest)
    manifest.jobs.ask(request, "asked for by a test")
    with launched.instance() as instance:
        (due,) = due_runs(launched.settings, instance, datetime.now(UTC), handlers.CALIBRATION)
    assert due.partition_key == library_key(launched.library)
    assert launched.ends(launch(launched, due.tag)) is dg.DagsterRunStatus.SUCCESS
    assert materialized(launched)["value"] == 100
    with launched.instance() as instance:
        assert due_runs(launched.settings, instance, datetime.now(UTC), handlers.CALIBRATION) == []


def test_without_a_target_the_asset_makes_the_table_and_says_why_nothing_is_applied(launched: LaunchedProject) -> None:
    assert launched.ends(launch(launched)) is dg.DagsterRunStatus.SUCCESS
    said = materialized(launched)
    assert said["applied"].startswith("no: no target is set")
    assert len(said["values"]) > 10
    assert launched.manifest.calibrations.of_library(launched.library) is None
