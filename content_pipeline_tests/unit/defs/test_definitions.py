"""The shape of what Dagster sees, at a glance: a change here is a change for users."""

from content_pipeline.definitions import build_definitions, defs
from content_pipeline.settings import load


def definitions(**flags):
    return build_definitions(
        load(flags={name.replace("__", "."): value for name, value in flags.items()}, env={}).settings
    )


def test_the_assets_and_what_they_depend_on():
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
        "best_of": ["detections"],
    }
    groups = {key.to_user_string(): graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert groups == {**dict.fromkeys(found, "video"), "best_of": "library"}
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
    }


def test_a_setting_changes_the_code_version_of_the_assets_that_read_it():
    def versions(**flags):
        graph = definitions(**flags).resolve_asset_graph()
        return {key.to_user_string(): graph.get(key).code_version for key in graph.get_all_asset_keys()}

    before, threshold, crf = versions(), versions(detection__rms_threshold=0.2), versions(render__crf=20)
    assert {name for name in before if before[name] != threshold[name]} == {"detections"}
    assert {name for name in before if before[name] != crf[name]} == {"montage", "best_of"}


def test_the_job_covers_every_asset_and_check_of_a_video():
    job = definitions().resolve_job_def("process_video")
    assert {node.name for node in job.nodes} == {"fingerprint", "energy", "detections", "montage"}
    assert job.executor_def.name == "resumable_in_process"


def test_what_happens_by_itself_is_on_from_the_start():
    found = defs()
    sensors = {sensor.name: sensor.default_status.value for sensor in found.sensors}
    assert sensors == dict.fromkeys(("watch_libraries", "dispatch_jobs", "reconcile_manifest"), "RUNNING")
    schedules = {schedule.name: schedule.cron_schedule for schedule in found.schedules}
    assert schedules == {
        "nightly_backfill_schedule": "0 1 * * *",
        "retention_schedule": "0 1 * * *",
        "scrub_recordings_schedule": "0 1 * * 0",
        "weekly_best_of": "0 1 * * 0",
    }


def test_what_encodes_shares_a_pool():
    graph = definitions().resolve_asset_graph()
    pools = {key.to_user_string(): graph.get(key).pools for key in graph.get_all_asset_keys()}
    assert {name for name, pool in pools.items() if pool == {"render"}} == {"montage", "best_of"}
