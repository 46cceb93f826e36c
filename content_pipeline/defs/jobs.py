"""One run brings one video up to date, in one process: the stages share what they have just read."""

from __future__ import annotations

import dagster as dg

from content_pipeline.launcher.names import PROCESS_VIDEO


def build_jobs() -> list[dg.UnresolvedAssetJobDefinition]:
    return [
        dg.define_asset_job(
            PROCESS_VIDEO,
            selection=dg.AssetSelection.groups("video"),
            executor_def=dg.in_process_executor,
            description="Fingerprint, energy, detections and montage of one recording; what is up to date is reused.",
        )
    ]
