"""One asset per stage, in a file of its name: those of a video, then those of a library."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import dagster as dg

from content_pipeline.settings import Settings
from content_pipeline.stage import STAGES


def build_assets(settings: Settings) -> Sequence[dg.AssetsDefinition]:
    """In the order of the registry; a part of a stage is no asset of its own."""
    modules = [importlib.import_module(f"{__name__}.{spec.name}") for spec in STAGES if spec.part_of is None]
    return [module.build(settings) for module in modules]
