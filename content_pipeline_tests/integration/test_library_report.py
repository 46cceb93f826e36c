"""The report of a library as an asset: materialized in Dagster, from a library that was really processed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
import sqlalchemy as sa

from content_pipeline.dagster_runtime.names import BACKFILL_NOW_PRIORITY, BACKFILL_PRIORITY
from content_pipeline.definitions import build_definitions
from content_pipeline.library.keys import library_key
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.processing import Project


@pytest.fixture
def processed(project: Project, samples_folder: Path) -> Project:
    short = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    for name in ("one.mp4", "two.mp4"):
        shutil.copy(short, project.library / name)
    assert {outcome.status for outcome in project.process().values()} == {"succeeded"}
    return project


def materialize(project: Project, **changed: Any) -> tuple[dg.AssetMaterialization, Any]:
    """The materialization, and the evaluation of its check."""
    settings = project.settings(**changed)
    key = library_key(project.library)
    with project.instance() as instance:
        instance.add_dynamic_partitions("libraries", [key])
        job = build_definitions(settings).resolve_job_def("report_library")
        result = job.execute_in_process(instance=instance, partition_key=key)
        (made,) = result.asset_materializations_for_node("library_report")
        (check,) = result.get_asset_check_evaluations()
        return made, check


def test_a_library_that_is_up_to_date_passes(processed: Project) -> None:
    made, check = materialize(processed)
    assert check.passed
    assert (made.metadata["stale"].value, made.metadata["up_to_date"].value) == (0, 2)
    assert next(iter(made.metadata)) == "plot"
    assert not {"videos_not_up_to_date", "stale_cpu_s", "stale_bytes"} & set(made.metadata), "no table of nothing"


def test_a_watched_folder_without_videos_is_up_to_date(project: Project) -> None:
    made, check = materialize(project, library__folders=[project.library])
    assert check.passed
    assert (made.metadata["stale"].value, made.metadata["videos"].value) == (0, 0)


def test_a_library_that_is_offline_fails_with_what_to_do_and_calls_no_video_stale(processed: Project) -> None:
    processed.library.rename(processed.library.with_name("unplugged"))
    with pytest.raises(dg.Failure) as failed:
        materialize(processed)
    assert str(processed.library) in str(failed.value.description)
    assert failed.value.metadata["what_to_do"].value


def test_names_with_markup_and_line_breaks_stay_names(processed: Project) -> None:
    odd = ["<img src=x onerror=alert(1)>.mp4", "![x](http:,,evil) **b**.mp4", "two\nlines.mp4", "=1+1.mp4"]
    for name in odd:
        shutil.copy(processed.library / "one.mp4", processed.library / name)
        (processed.library / name).open("ab").write(name.encode())
    made, _ = materialize(processed, detection__rms_threshold=0.2)
    metadata: Any = made.metadata
    shown = {Path(row.data["path"]).name for row in metadata["videos_not_up_to_date"].records}
    assert {name.replace("\n", "\\n") for name in odd} <= shown
    assert not any(
        "onerror" in entry.value for entry in metadata.values() if isinstance(entry, dg.MarkdownMetadataValue)
    )
    assert {Path(path).name for path in pd.read_csv(metadata["csv"].value)["path"]} >= {
        name.replace("\n", "\\n") for name in odd
    }


def test_stale_videos_warn_with_table_plot_costs_and_a_file_that_pandas_reads(processed: Project) -> None:
    made, check = materialize(processed, detection__rms_threshold=0.2)
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.metadata["causes"].value == "2 videos: detection.rms_threshold 0.1 -> 0.2"
    metadata: Any = made.metadata
    assert metadata["plot"].value.startswith("![videos out of date, by cause](data:image/png;base64,")
    assert len(metadata["videos_not_up_to_date"].records) == metadata["stale"].value == 2
    assert metadata["stale_cpu_s"].value > 0
    table = pd.read_csv(metadata["csv"].value)
    assert set(table["standing"]) == {"stale"}
    assert set(table["stages"]) == {"detections montage"}
    assert sorted(Path(path).name for path in table["path"]) == ["one.mp4", "two.mp4"]


def test_the_same_findings_have_the_same_data_version_and_remember_since_when(processed: Project) -> None:
    first, _ = materialize(processed, detection__rms_threshold=0.2)
    before = pd.read_csv(str(first.metadata["csv"].value))
    again, _ = materialize(processed, detection__rms_threshold=0.2)
    after = pd.read_csv(str(again.metadata["csv"].value))
    assert first.tags["dagster/data_version"] == again.tags["dagster/data_version"]
    assert list(before["stale_since"]) == list(after["stale_since"])
    other, _ = materialize(processed)
    assert other.tags["dagster/data_version"] != first.tags["dagster/data_version"]


def backfill(project: Project, job_name: str, now: bool | None) -> set[tuple[str, int]]:
    """Launched by hand; the states and priorities of the jobs afterwards."""
    settings = project.settings(detection__rms_threshold=0.2, library__folders=[project.library])
    op = {"backfill_stale": "enqueue_stale_videos", "nightly_backfill": "enqueue_stale_videos_for_the_night"}[job_name]
    config = {} if now is None else {"ops": {op: {"config": {"now": now}}}}
    with project.instance() as instance:
        job = build_definitions(settings).resolve_job_def(job_name)
        assert job.execute_in_process(instance=instance, run_config=config).success
    return {(str(job.status), job.priority) for job in project.manifest().jobs.list()}


def test_a_backfill_by_hand_is_for_now_and_the_nightly_one_waits_unless_it_is_said(processed: Project) -> None:
    assert backfill(processed, "nightly_backfill", None) == {("dirty", BACKFILL_PRIORITY)}
    assert backfill(processed, "backfill_stale", False) == {("dirty", BACKFILL_PRIORITY)}
    assert backfill(processed, "backfill_stale", None) == {("dirty", BACKFILL_NOW_PRIORITY)}
    assert backfill(processed, "nightly_backfill", None) == {("dirty", BACKFILL_NOW_PRIORITY)}


def test_where_nothing_is_known_of_costs_the_report_says_so(processed: Project) -> None:
    settings = processed.settings()
    engine = sa.create_engine(f"sqlite:///{settings.state_dir / 'queue.db'}")
    with engine.begin() as connection:
        connection.execute(sa.text("update attempts set cost = '{}'"))
    engine.dispose()
    made, check = materialize(processed, detection__rms_threshold=0.2)
    metadata: Any = made.metadata
    assert not check.passed
    assert metadata["stale_cost"].value == "unknown"
    assert {row.data["expected_cpu"] for row in metadata["videos_not_up_to_date"].records} == {"unknown"}


def test_what_was_reused_or_marked_stale_since_does_not_make_costs_unknown(processed: Project) -> None:
    processed.process(detection__rms_threshold=0.3)
    processed.process()  # back again: everything is reused
    backfill(processed, "nightly_backfill", None)  # every job is dirty now
    made, _ = materialize(processed, detection__rms_threshold=0.2)
    assert float(str(made.metadata["stale_cpu_s"].value)) > 0
