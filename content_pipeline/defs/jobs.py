"""The jobs that Dagster can run: one for each kind of job of the manifest, the best-of, and maintenance."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from content_pipeline.defs.library_report import LIBRARY_REPORT
from content_pipeline.defs.maintenance import build_maintenance_jobs
from content_pipeline.execution.job_kinds import HANDLERS, JobKindHandler
from content_pipeline.settings import Settings
from content_pipeline.stage import spec_of

BEST_OF, REPORT = "best_of_library", "report_library"


def build_jobs(settings: Settings) -> Sequence[dg.JobDefinition | dg.UnresolvedAssetJobDefinition]:
    return [
        *(_of_kind(handler) for handler in HANDLERS),
        dg.define_asset_job(
            BEST_OF,
            selection=dg.AssetSelection.assets("best_of"),
            tags={"subject": "library"},
            description="Joins the highlights of a library that stand out most into one video.",
        ),
        dg.define_asset_job(
            REPORT,
            selection=dg.AssetSelection.assets(LIBRARY_REPORT),
            tags={"subject": "library"},
            description="Says which videos of a library are out of date, why, since when and what they would cost.",
        ),
        *build_maintenance_jobs(settings),
    ]


def _of_kind(handler: JobKindHandler) -> dg.UnresolvedAssetJobDefinition:
    stages = dg.AssetSelection.assets(*handler.stages)
    return dg.define_asset_job(
        handler.dagster_job,
        selection=stages,
        tags={"subject": spec_of(handler.stages[0]).subject},
        description=handler.description,
    )
