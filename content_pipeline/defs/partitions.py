"""Each video is a partition, and so is each library; their keys come from `library.keys`."""

from __future__ import annotations

import dagster as dg

from content_pipeline.launcher.names import VIDEO_PARTITIONS

VIDEOS = dg.DynamicPartitionsDefinition(name=VIDEO_PARTITIONS)
LIBRARIES = dg.DynamicPartitionsDefinition(name="libraries")
