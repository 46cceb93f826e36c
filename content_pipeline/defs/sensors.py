"""What happens by itself while the daemon runs: folders are watched, jobs dispatched, orphans brought back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from content_pipeline.dagster_runtime.dispatch import DueRun, due_runs
from content_pipeline.dagster_runtime.names import JOB_TAG, PRIORITY_TAG
from content_pipeline.dagster_runtime.rebuild import rebuild
from content_pipeline.defs.partitions import register_libraries
from content_pipeline.execution.names import CALIBRATE_LIBRARY, PROCESS_VIDEO, VIDEO_PARTITIONS
from content_pipeline.job_kinds import CALIBRATION
from content_pipeline.launchers.local.reconcile import REBUILD_BUDGET_S, reconcile
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.watching import watch
from content_pipeline.settings import Settings

Current = Callable[[], Settings]

DISPATCH_INTERVAL_S = 5
CALIBRATIONS_INTERVAL_S = 30
RECONCILE_INTERVAL_S = 15


def build_sensors(settings: Settings, current: Current) -> Sequence[dg.SensorDefinition]:
    """`current` reads the settings anew: a tick goes by the file as it is now."""
    return [
        _watch_libraries(current, max(1, round(settings.schedule.watch_interval_s))),
        _dispatch_jobs(current),
        _dispatch_calibrations(current),
        _reconcile_manifest(current),
    ]


def _watch_libraries(current: Current, interval_s: int) -> dg.SensorDefinition:
    @dg.sensor(
        name="watch_libraries",
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks for new and edited recordings in the watched folders, without reading them.",
    )
    def watch_libraries(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        settings = current()
        if not settings.library.folders:
            return dg.SkipReason("No folder is watched: set `library.folders`, or start `content-ai dev --watch`.")
        manifest = open_manifest(settings)
        if manifest.videos.is_empty() and rebuild(context.instance, manifest, REBUILD_BUDGET_S).left:
            return dg.SkipReason("The manifest is empty; it is being rebuilt from Dagster's records first.")
        done = watch(settings, manifest, json.loads(context.cursor) if context.cursor else {})
        context.update_cursor(json.dumps(done.moving))
        register_libraries(context.instance, settings.library.folders)
        return dg.SkipReason("; ".join(folder.in_words for folder in done.folders))

    return watch_libraries


def _dispatch_jobs(current: Current) -> dg.SensorDefinition:
    @dg.sensor(
        name="dispatch_jobs",
        job_name=PROCESS_VIDEO,
        minimum_interval_seconds=DISPATCH_INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Requests a run for each job that is due, a few at a time; the other jobs wait in the manifest.",
    )
    def dispatch_jobs(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        due = due_runs(current(), context.instance, datetime.now(UTC))
        if not due:
            return dg.SkipReason("No job is due, or enough runs are open.")
        context.instance.add_dynamic_partitions(VIDEO_PARTITIONS, sorted({run.partition_key for run in due}))
        return dg.SensorResult(run_requests=_requests(due))

    return dispatch_jobs


def _dispatch_calibrations(current: Current) -> dg.SensorDefinition:
    @dg.sensor(
        name="dispatch_calibrations",
        job_name=CALIBRATE_LIBRARY,
        minimum_interval_seconds=CALIBRATIONS_INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Requests a run for each calibration that was interrupted or is retried.",
    )
    def dispatch_calibrations(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        due = due_runs(current(), context.instance, datetime.now(UTC), CALIBRATION)
        if not due:
            return dg.SkipReason("No calibration is waiting.")
        register_libraries(context.instance, {Path(run.job.library) for run in due})
        return dg.SensorResult(run_requests=_requests(due))

    return dispatch_calibrations


def _requests(due: Sequence[DueRun]) -> list[dg.RunRequest]:
    return [
        dg.RunRequest(
            run_key=run.run_key,
            partition_key=run.partition_key,
            tags={JOB_TAG: run.tag, PRIORITY_TAG: str(run.job.priority)},
        )
        for run in due
    ]


def _reconcile_manifest(current: Current) -> dg.SensorDefinition:
    @dg.sensor(
        name="reconcile_manifest",
        minimum_interval_seconds=RECONCILE_INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Rescues jobs and runs whose worker is gone, and rebuilds rows that are missing in the manifest.",
    )
    def reconcile_manifest(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        done = reconcile(current(), context.instance)
        repairs = [f"{count} {what}" for what, count in done.items() if count]
        return dg.SkipReason(", ".join(repairs) if repairs else "Nothing to do.")

    return reconcile_manifest
