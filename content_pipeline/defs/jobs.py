"""The jobs that Dagster can run: one for each kind of job of the manifest, the best-of, and maintenance."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from content_pipeline.defs.maintenance import build_maintenance_jobs
from content_pipeline.execution.job_kinds import HANDLERS, JobKindHandler
from content_pipeline.settings import Settings

BEST_OF = "best_of_library"


def build_jobs(settings: Settings) -> Sequence[dg.JobDefinition | dg.UnresolvedAssetJobDefinition]:
    return [
        *(_of_kind(handler) for handler in HANDLERS),
        dg.define_asset_job(
            BEST_OF,
            selection=dg.AssetSelection.assets("best_of"),
            description="Joins the highlights of a library that stand out most into one video.",
        ),
        *build_maintenance_jobs(settings),
    ]


def _of_kind(handler: JobKindHandler) -> dg.UnresolvedAssetJobDefinition:
    stages = dg.AssetSelection.assets(*handler.stages)
    return dg.define_asset_job(handler.dagster_job, selection=stages, description=handler.description)
