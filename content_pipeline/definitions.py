"""The code location: everything Dagster shows, composed from settings."""

from __future__ import annotations

import dagster as dg

from content_pipeline.defs.assets import build_assets
from content_pipeline.defs.jobs import build_jobs
from content_pipeline.defs.resources import build_resources
from content_pipeline.settings import Settings, load
from content_pipeline.stages.carrier import Carrier


def build_definitions(settings: Settings, carrier: Carrier | None = None) -> dg.Definitions:
    carried_by = Carrier() if carrier is None else carrier
    return dg.Definitions(
        assets=build_assets(settings, carried_by.listener),
        jobs=build_jobs(),
        resources=build_resources(settings, carried_by),
    )


@dg.definitions
def defs() -> dg.Definitions:
    return build_definitions(load().settings)
