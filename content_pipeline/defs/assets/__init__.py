"""One asset per stage, in a file of its name: those of a video, then those of a library."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from content_pipeline.defs.assets import best_of, calibration, detections, energy, fingerprint, montage
from content_pipeline.settings import Settings


def build_assets(settings: Settings) -> Sequence[dg.AssetsDefinition]:
    modules = (fingerprint, energy, detections, montage, calibration, best_of)
    return [module.build(settings) for module in modules]
