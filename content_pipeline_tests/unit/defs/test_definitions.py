"""The shape of what Dagster sees, at a glance: a change here is a change for users."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.instance import dagster_home, open_instance
from content_pipeline.definitions import build_definitions, defs
from content_pipeline.defs.schedules import build_schedules
from content_pipeline.library.keys import library_key
from content_pipeline.manifest.model import JobRequest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load


def definitions(**flags: Any) -> dg.Definitions:
    return build_definitions(
        load(flags={name.replace("__", "."): value for name, value in flags.items()}, env={}).settings
    )


def test_the_assets_and_what_they_depend_on() -> None:
    graph = definitions().resolve_asset_graph()
    found = {
        key.to_user_string(): sorted(parent.to_user_string() for parent in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
    }
    assert found == {
        "fingerprint": [],
        "energy": ["fingerprint"],
        "detections": ["energy"],
        "montage": ["detections"],
        "calibration": [],
        "best_of": ["detections"],
        "library_report": [],
    }
    groups = {key.to_user_string(): graph.get(key).group_name for key in graph.get_all_asset_keys()}
    of_libraries = dict.fromkeys(("calibration", "best_of", "library_report"), "library")
    assert groups == {**dict.fromkeys(found, "video"), **of_libraries}
    assert all(graph.get(key).is_partitioned and graph.get(key).description for key in graph.get_all_asset_keys())
    assert {f"{key.asset_key.to_user_string()}.{key.name}" for key in graph.asset_check_keys} == {
        "detections.within_the_video",
        "montage.plays",
        "montage.duration_matches_plan",
        "montage.cuts_in_order",
        "montage.has_sound",
        "best_of.plays",
        "best_of.duration_matches_plan",
        "best_of.cuts_in_order",
        "best_of.has_sound",
        "library_report.nothing_is_stale",
    }


def test_a_setting_changes_the_code_version_of_the_assets_that_read_it() -> None:
    def versions(**flags: Any) -> Any:
        graph = definitions(**flags).resolve_asset_graph()
        return {key.to_user_string(): graph.get(key).code_version for key in graph.get_all_asset_keys()}

    before, threshold, crf = versions(), versions(detection__rms_threshold=0.2), versions(render__crf=20)
    assert {name for name in before if before[name] != threshold[name]} == {"detections", "calibration"}
    assert {name for name in before if before[name] != crf[name]} == {"montage", "best_of"}


def test_the_job_covers_every_asset_and_check_of_a_video() -> None:
    job = definitions().resolve_job_def("process_video")
    assert {node.name for node in job.nodes} == {"fingerprint", "energy", "detections", "montage"}
    assert job.executor_def.name == "resumable_in_process"


def test_each_asset_of_a_library_has_a_job_of_its_own() -> None:
    found = definitions()
    for name, asset in (
        ("calibrate_library", "calibration"),
        ("best_of_library", "best_of"),
        ("report_library", "library_report"),
    ):
        assert [node.name for node in found.resolve_job_def(name).nodes] == [asset]


def test_what_happens_by_itself_is_on_from_the_start() -> None:
    found = defs()
    sensors = {sensor.name: sensor.default_status.value for sensor in found.sensors}
    assert sensors == dict.fromkeys(
        ("watch_libraries", "dispatch_jobs", "dispatch_calibrations", "reconcile_manifest"), "RUNNING"
    )
    schedules = {schedule.name: schedule.cron_schedule for schedule in found.schedules}
    assert schedules == {
        "nightly_backfill_schedule": "0 1 * * *",
        "retention_schedule": "0 1 * * *",
        "scrub_recordings_schedule": "0 1 * * 0",
        "hourly_report": "30 * * * *",
        "weekly_calibration": "0 1 * * 5",
        "weekly_best_of": "0 1 * * 0",
    }


def test_everything_that_people_see_says_what_it_is() -> None:
    found = defs()
    repository = found.get_repository_def()
    described = [*found.sensors, *found.schedules, *(job for job in repository.get_all_jobs() if job.name[0] != "_")]
    assert [one.name for one in described if not one.description] == []
    graph = repository.asset_graph
    assert {key.to_user_string() for key in graph.get_all_asset_keys() if not graph.get(key).tags} == set()


def test_what_encodes_shares_a_pool() -> None:
    graph = definitions().resolve_asset_graph()
    pools = {key.to_user_string(): graph.get(key).pools for key in graph.get_all_asset_keys()}
    assert {name for name, pool in pools.items() if pool == {"render"}} == {"montage", "best_of"}


def weekly_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **flags: Any) -> Any:
    """What the schedule asks for, with one watched library that has a video."""
    library = tmp_path / "games"
    library.mkdir()
    base = {"state_dir": tmp_path / "state", "library.folders": [library]}
    settings = load(flags={**base, **flags}, env={}).settings
    open_manifest(settings).jobs.enqueue([JobRequest(str(library / "one.mp4"), str(library))])
    schedules = dg.Definitions(schedules=build_schedules(settings, lambda: settings))
    repository = dg.Definitions.merge(build_definitions(settings), schedules).get_repository_def()
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home(settings)))  # the tick opens the instance for itself
    at = datetime(2026, 1, 2, 1, tzinfo=UTC)
    schedule = repository.get_schedule_def("weekly_calibration")
    with (
        open_instance(settings) as instance,
        dg.build_schedule_context(instance, scheduled_execution_time=at, repository_def=repository) as context,
    ):
        return schedule.evaluate_tick(context), library


def test_libraries_are_calibrated_every_week_when_something_is_wished_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick, library = weekly_calibration(tmp_path, monkeypatch, **{"calibration.per_hour": 6})
    assert [request.partition_key for request in tick.run_requests] == [library_key(library)]


def test_libraries_are_left_as_they_are_when_nothing_is_wished_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick, _ = weekly_calibration(tmp_path, monkeypatch)
    assert not tick.run_requests
    assert "calibration.montage_s" in tick.skip_message
