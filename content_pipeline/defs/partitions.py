"""Each video is a partition, and so is each library; their keys come from `library.keys`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import dagster as dg

from content_pipeline.execution.names import LIBRARY_PARTITIONS, VIDEO_PARTITIONS
from content_pipeline.library.keys import library_key

VIDEOS = dg.DynamicPartitionsDefinition(name=VIDEO_PARTITIONS)
LIBRARIES = dg.DynamicPartitionsDefinition(name=LIBRARY_PARTITIONS)


def register_libraries(instance: dg.DagsterInstance, folders: Iterable[Path]) -> list[str]:
    """Make libraries partitions, so that a best-of can be asked for; returns their keys."""
    name, keys = str(LIBRARIES.name), sorted({library_key(folder) for folder in folders})
    new = [key for key in keys if not instance.has_dynamic_partition(name, key)]
    if new:
        instance.add_dynamic_partitions(name, new)
    return keys
