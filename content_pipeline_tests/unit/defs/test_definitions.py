"""The shape of what Dagster sees, at a glance: a change here is a change for users."""

from content_pipeline.definitions import build_definitions
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
    }
    assert {graph.get(key).group_name for key in graph.get_all_asset_keys()} == {"video"}
    assert all(graph.get(key).is_partitioned and graph.get(key).description for key in graph.get_all_asset_keys())
    assert {f"{key.asset_key.to_user_string()}.{key.name}" for key in graph.asset_check_keys} == {
        "detections.within_the_video",
        "montage.plays",
        "montage.duration_matches_plan",
        "montage.cuts_in_order",
        "montage.has_sound",
    }


def test_a_setting_changes_the_code_version_of_the_assets_that_read_it():
    def versions(**flags):
        graph = definitions(**flags).resolve_asset_graph()
        return {key.to_user_string(): graph.get(key).code_version for key in graph.get_all_asset_keys()}

    before, threshold, crf = versions(), versions(detection__rms_threshold=0.2), versions(render__crf=20)
    assert {name for name in before if before[name] != threshold[name]} == {"detections"}
    assert {name for name in before if before[name] != crf[name]} == {"montage"}


def test_the_job_covers_every_asset_and_check_of_a_video():
    job = definitions().resolve_job_def("process_video")
    assert {node.name for node in job.nodes} == {"fingerprint", "energy", "detections", "montage"}
    assert job.executor_def.name == "in_process"
