"""What happens by itself while the daemon runs: folders are watched, jobs dispatched, orphans brought back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import dagster as dg

from content_pipeline.dagster_runtime.dispatch import DueRun, due_runs
from content_pipeline.dagster_runtime.manifest_rebuild import rebuild
from content_pipeline.dagster_runtime.names import JOB_TAG, PRIORITY_TAG
from content_pipeline.defs.partitions import register_libraries
from content_pipeline.execution.job_kinds import HANDLERS, JobKindHandler
from content_pipeline.launchers.local.reconcile import REBUILD_BUDGET_S, reconcile
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.watching import watch
from content_pipeline.settings import Settings

Current = Callable[[], Settings]

RECONCILE_INTERVAL_S = 15


def build_sensors(settings: Settings, current: Current) -> Sequence[dg.SensorDefinition]:
    """`current` reads the settings anew: a tick goes by the file as it is now."""
    return [
        _watch_libraries(current, max(1, round(settings.schedule.watch_interval_s))),
        *(_dispatch(current, handler) for handler in HANDLERS),
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


def _dispatch(current: Current, handler: JobKindHandler) -> dg.SensorDefinition:
    """The sensor of one kind of job."""

    @dg.sensor(
        name=handler.dispatch.sensor,
        job_name=handler.dagster_job,
        minimum_interval_seconds=handler.dispatch.interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=handler.dispatch.description,
    )
    def dispatch(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        due = due_runs(current(), context.instance, datetime.now(UTC), handler)
        if not due:
            return dg.SkipReason(handler.dispatch.nothing_due)
        context.instance.add_dynamic_partitions(handler.partitions, sorted({run.partition_key for run in due}))
        return dg.SensorResult(run_requests=_requests(due))

    return dispatch


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
