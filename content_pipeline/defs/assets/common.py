"""What the four assets share."""

from __future__ import annotations

from typing import Any

from content_pipeline.defs.partitions import VIDEOS
from content_pipeline.settings import Settings
from content_pipeline.stage import StageName
from content_pipeline.stages.context import code_version

RENDER_POOL = "render"  # no limit, until one is set for the pool in the UI or in dagster.yaml


def asset_options(settings: Settings, stage: StageName, kinds: set[str]) -> dict[str, Any]:
    return {
        "name": stage,
        "partitions_def": VIDEOS,
        "code_version": code_version(settings, stage),
        "group_name": "video",
        "owners": ["team:content"],
        "kinds": kinds,
        "output_required": True,
        "pool": RENDER_POOL if stage in ("montage", "best_of") else None,
    }
