"""The manifest that the settings name."""

from __future__ import annotations

from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.store import Manifest
from content_pipeline.settings import Settings


def open_manifest(settings: Settings) -> Manifest:
    return Manifest(open_engine(settings.manifest_url), lease_s=settings.queue.lease_s)
