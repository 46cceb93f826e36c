"""Forgetting what nobody needs any more: old history, the jobs of recordings that are gone, unused artifacts, logs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.library.presence import is_offline
from content_pipeline.manifest.catalog import Catalog
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.settings import Settings


def forget_old(settings: Settings, manifest: Manifest, before: datetime) -> dict[str, int]:
    """What was removed, counted."""
    catalog = Catalog(manifest.engine)
    # Looked at before the transaction: a share that does not answer must not keep the manifest from everybody.
    unmounted = {path for path, signature in catalog.offline().items() if is_offline(Path(path), signature)}
    pruned = manifest.prune(before, spared=unmounted)
    pruned["outputs"] = manifest.publications().forget_missing(before)
    state = settings.state_dir.absolute()
    artifacts = ArtifactStore(state / "artifacts")
    artifacts.sweep()
    pruned["artifacts"] = artifacts.collect(catalog.stage_keys(), before.timestamp())
    logs = [log for log in (state / "logs").glob("*.log") if log.stat().st_mtime < before.timestamp()]
    for log in logs:
        log.unlink(missing_ok=True)
    pruned["logs"] = len(logs)
    return pruned
