"""Loading what is heavy once, before children are forked: they start with it in memory, and share it."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterable

HEAVY = (
    "av",
    "blake3",
    "soxr",
    "content_pipeline.media.curves.measure",
    "content_pipeline.media.curves.parallel_energy",
    "content_pipeline.media.detection.broadband",
    "content_pipeline.media.preview",
)


def warm(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def keep_shared() -> None:
    """To be called once, when all is loaded that children start with.

    Looking for garbage writes into every object it looks at, and a page that is written is no longer shared.
    """
    gc.collect()
    gc.freeze()
