"""Watching: new and edited recordings of the watched folders are enqueued."""

from __future__ import annotations

import json
from collections.abc import Callable

import dagster as dg

from content_pipeline.dagster_runtime.manifest_rebuild import rebuild
from content_pipeline.defs.partitions import register_libraries
from content_pipeline.launchers.reconcile import REBUILD_BUDGET_S
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.planner import watch
from content_pipeline.settings import Settings


def watch_sensor(current: Callable[[], Settings], interval_s: int) -> dg.SensorDefinition:
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
