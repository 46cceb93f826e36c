"""The code location: everything Dagster shows, composed from settings."""

from __future__ import annotations

import dagster as dg

from content_pipeline.defs.assets import build_assets
from content_pipeline.defs.jobs import build_jobs
from content_pipeline.defs.reporting import Listener, Silent
from content_pipeline.defs.resources import build_resources
from content_pipeline.settings import Settings, load


def build_definitions(settings: Settings, listener: Listener | None = None, force: bool = False) -> dg.Definitions:
    heard_by = Silent() if listener is None else listener
    return dg.Definitions(
        assets=build_assets(settings, heard_by),
        jobs=build_jobs(),
        resources=build_resources(settings, heard_by, force),
    )


@dg.definitions
def defs() -> dg.Definitions:
    return build_definitions(load().settings)
