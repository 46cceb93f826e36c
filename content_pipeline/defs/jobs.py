"""The jobs that Dagster can run: of one video, of one library, and maintenance."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from content_pipeline.defs.maintenance import build_maintenance_jobs
from content_pipeline.execution.names import CALIBRATE_LIBRARY, PROCESS_VIDEO
from content_pipeline.settings import Settings

BEST_OF = "best_of_library"


def build_jobs(settings: Settings) -> Sequence[dg.JobDefinition | dg.UnresolvedAssetJobDefinition]:
    return [
        dg.define_asset_job(
            PROCESS_VIDEO,
            selection=dg.AssetSelection.groups("video"),
            description="Fingerprint, energy, detections and montage of one recording; what is up to date is reused.",
        ),
        dg.define_asset_job(
            BEST_OF,
            selection=dg.AssetSelection.assets("best_of"),
            description="Joins the highlights of a library that stand out most into one video.",
        ),
        dg.define_asset_job(
            CALIBRATE_LIBRARY,
            selection=dg.AssetSelection.assets("calibration"),
            description="Finds the threshold that reaches the target in the settings, and applies it to a library.",
        ),
        *build_maintenance_jobs(settings),
    ]
