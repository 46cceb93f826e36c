"""The code location: everything Dagster shows, composed from settings."""

from __future__ import annotations

import dagster as dg

from content_pipeline.dagster_runtime.private_api import resumable_in_process_executor
from content_pipeline.defs.assets import build_assets
from content_pipeline.defs.jobs import build_jobs
from content_pipeline.defs.library_report import build_library_report
from content_pipeline.defs.resources import build_resources
from content_pipeline.defs.schedules import build_schedules
from content_pipeline.defs.sensors import build_sensors
from content_pipeline.settings import Settings, load


def build_definitions(settings: Settings) -> dg.Definitions:
    """What a run needs: assets and jobs."""
    return dg.Definitions(
        assets=[*build_assets(settings), build_library_report(settings)],
        jobs=build_jobs(settings),
        resources=build_resources(settings),
        executor=resumable_in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """What people and the daemon see: the same, and what happens by itself."""
    settings = load().settings
    by_itself = dg.Definitions(sensors=build_sensors(settings, _current), schedules=build_schedules(settings, _current))
    return dg.Definitions.merge(build_definitions(settings), by_itself)


def _current() -> Settings:
    return load().settings
