"""Reconciling: what died is noticed, and what it worked on goes on."""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg

from content_pipeline.launchers.reconcile import reconcile
from content_pipeline.settings import Settings

RECONCILE_INTERVAL_S = 15


def reconcile_sensor(current: Callable[[], Settings]) -> dg.SensorDefinition:
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
