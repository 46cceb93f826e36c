"""What is out of date, at 10,000 videos: our sensors and report, against Dagster's own automation and staleness; and
what the pages of the UI take there, against the same pages at 100 videos."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from bench.measure import Row
from bench.pretended import processed, project
from bench.ui_queries import seconds_of_pages
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import PARTITION_TAG
from content_pipeline.definitions import build_definitions
from content_pipeline.defs.sensors import build_sensors
from content_pipeline.execution.names import PROCESS_VIDEO, VIDEO_PARTITIONS
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.library_report import make_report
from content_pipeline.settings import OutputSettings, Settings
from content_pipeline.stage import VIDEO_STAGES

MANY, FEW = 10_000, 100
# A page may be so many times slower at a hundred times as many videos: 1 / 0.2, 1 / 0.05. Runs are shown 30 at a time.
SLOWER = {"asset graph": 0.2, "partitions of an asset": 0.05, "runs": 0.5}
SAMPLE = 50


def rows(folder: Path) -> Iterator[Row]:
    with _library(folder / "few", FEW) as (_settings, instance, _keys):
        few = seconds_of_pages(instance)
    with _library(folder / "many", MANY) as (settings, instance, keys):
        yield _ticks(instance, settings)
        yield _report(instance, settings, keys, folder / "many" / "library")
        many = seconds_of_pages(instance)
    for page, seconds in many.items():
        what = f"page of the UI: {page}, {MANY:,} videos"
        yield Row(
            what, seconds, few[page], "s", SLOWER[page], f"{FEW} videos", note="the query alone, without a browser"
        )


@contextmanager
def _library(folder: Path, count: int) -> Iterator[tuple[Settings, dg.DagsterInstance, list[str]]]:
    """All of its videos are done, by one run each."""
    with project(folder, 2) as settings, open_instance(settings) as instance:
        keys = processed(folder / "library", settings, count)
        instance.add_dynamic_partitions(VIDEO_PARTITIONS, keys)
        _materialize(instance, settings, keys)
        for key in keys:
            tags, done = {PARTITION_TAG: key}, dg.DagsterRunStatus.SUCCESS
            instance.add_run(dg.DagsterRun(job_name=PROCESS_VIDEO, tags=tags, status=done))
        yield settings, instance, keys


def _materialize(instance: dg.DagsterInstance, settings: Settings, keys: list[str]) -> None:
    """Every stage of every video, as Dagster knows it when all is done with the current code."""
    graph = build_definitions(settings).resolve_asset_graph()
    for stage in VIDEO_STAGES:
        tags = {"dagster/data_version": "1", "dagster/code_version": str(graph.get(dg.AssetKey(stage)).code_version)}
        for key in keys:
            instance.report_runless_asset_event(dg.AssetMaterialization(stage, partition=key, tags=tags))


def _ticks(instance: dg.DagsterInstance, settings: Settings) -> Row:
    """All of ours together; and one look of conditions that would stand in for the nightly plan alone."""
    context, sensors = dg.build_sensor_context(instance=instance), build_sensors(settings, lambda: settings)
    seconds = _second_time(lambda: [sensor.evaluate_tick(context) for sensor in sensors])
    condition = dg.AutomationCondition.on_missing() | dg.AutomationCondition.code_version_changed()
    assets = [
        dg.AssetSpec(
            stage,
            deps=[VIDEO_STAGES[number - 1]] if number else [],
            partitions_def=dg.DynamicPartitionsDefinition(name=VIDEO_PARTITIONS),
            automation_condition=condition,
        )
        for number, stage in enumerate(VIDEO_STAGES)
    ]
    automated = dg.Definitions(assets=[_asset(spec) for spec in assets])
    cursor = dg.evaluate_automation_conditions(automated, instance).cursor
    started = time.perf_counter()
    found = dg.evaluate_automation_conditions(automated, instance, cursor=cursor)
    theirs = time.perf_counter() - started
    assert found.total_requested == 0
    what = f"idle look at {MANY:,} videos: all our sensors"
    note = "the conditions see missing partitions and changed code only: no setting, no file, no output, no cost"
    return Row(what, seconds, theirs, "s", 1, "automation conditions", note=note)


def _asset(spec: dg.AssetSpec) -> dg.AssetsDefinition:
    @dg.multi_asset(specs=[spec], name=f"make_{spec.key.to_user_string()}")
    def make() -> None:
        raise AssertionError("only looked at")

    return make


def _report(instance: dg.DagsterInstance, settings: Settings, keys: list[str], library: Path) -> Row:
    """Everything is out of date after a change of settings; Dagster is asked for some partitions, and extrapolated."""
    changed = settings.model_copy(update={"output": OutputSettings(max_segments=1)})
    manifest = open_manifest(settings)
    ours = _second_time(lambda: make_report(changed, library, manifest, {}, datetime.now(UTC)).causes())
    graph = build_definitions(changed).resolve_asset_graph()
    started = time.perf_counter()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    stale = [resolver.get_status(dg.AssetKey("detections"), key) for key in keys[:SAMPLE]]
    theirs = (time.perf_counter() - started) * MANY / SAMPLE
    assert {str(one.value) for one in stale} == {"STALE"}, stale[:3]
    what = f"why {MANY:,} videos are out of date, and at what cost"
    return Row(
        what, ours, theirs, "s", 5, "Dagster's staleness", note=f"{SAMPLE} partitions of one asset, extrapolated"
    )


def _second_time(look: Callable[[], object]) -> float:
    look()
    started = time.perf_counter()
    look()
    return time.perf_counter() - started
