"""The four assets of a video, in the order they depend on each other, and the one of a library."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from content_pipeline.defs.assets import best_of, detections, energy, fingerprint, montage
from content_pipeline.settings import Settings
from content_pipeline.stages.carrier import Listener


def build_assets(settings: Settings, listener: Listener) -> Sequence[dg.AssetsDefinition]:
    return [module.build(settings, listener) for module in (fingerprint, energy, detections, montage, best_of)]
