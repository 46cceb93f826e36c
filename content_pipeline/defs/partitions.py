"""Each video is a partition; its key comes from `library.keys`."""

from __future__ import annotations

import dagster as dg

VIDEOS = dg.DynamicPartitionsDefinition(name="videos")
