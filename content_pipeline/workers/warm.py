"""Loading what is heavy once, before children are forked: they start with it in memory."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

HEAVY = (
    "av",
    "blake3",
    "scipy.fft",
    "soxr",
    "content_pipeline.media.energy",
    "content_pipeline.media.parts",
    "content_pipeline.media.detectors.broadband",
    "content_pipeline.media.preview",
)


def warm(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)
