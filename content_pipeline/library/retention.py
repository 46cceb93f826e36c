"""Forgetting what nobody needs any more: old history, the jobs of recordings that are gone, unused artifacts, logs."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.library.presence import is_offline
from content_pipeline.manifest.ids import ULID_PATTERN
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.settings import Settings

# Of an attempt of a job, and of a run. A state folder may be somebody's project, which has logs of its own.
_LOG_NAME = re.compile(rf"({ULID_PATTERN}-\d+|run-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})\.log", re.ASCII)


def forget_old(
    settings: Settings, manifest: Manifest, before: datetime, video_kinds: Collection[str] = (PROCESSING,)
) -> dict[str, int]:
    """What was removed, counted. `video_kinds`: the jobs that go when their recording is gone."""
    # Looked at before the transaction: a share that does not answer must not keep the manifest from everybody.
    unmounted = {path for path, signature in manifest.videos.offline().items() if is_offline(Path(path), signature)}
    pruned = manifest.prune(before, unmounted, video_kinds)
    pruned["outputs"] = manifest.publications.forget_missing(before)
    state = settings.state_dir.absolute()
    artifacts = ArtifactStore(state / "artifacts")
    artifacts.sweep()
    pruned["artifacts"] = artifacts.collect(manifest.artifact_keys(), before.timestamp())
    pruned["logs"] = _remove_old_logs(state / "logs", before.timestamp())
    return pruned


def _remove_old_logs(folder: Path, before_s: float) -> int:
    named = [log for log in folder.glob("*.log") if _LOG_NAME.fullmatch(log.name)]
    old = [log for log in named if log.lstat().st_mtime < before_s]
    for log in old:
        log.unlink(missing_ok=True)
    return len(old)
