"""Libraries that are already processed, made in no time: small files that the manifest knows as done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import patched_environment
from content_pipeline.library.recipe import Recipe, recipe_of
from content_pipeline.manifest.model import JobResult
from content_pipeline.manifest.open import open_manifest
from content_pipeline.manifest.restore import RecordedResult, RecordedVideo
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.media.source import Signature
from content_pipeline.settings import Settings, load


@contextmanager
def project(folder: Path, workers: int) -> Iterator[Settings]:
    """A folder with a library and a state of its own; what is started in the block finds them by the environment."""
    (folder / "library").mkdir(parents=True)
    given = {
        "CONTENT_AI_STATE_DIR": str(folder / "state"),
        "CONTENT_AI_OUTPUT_DIR": str(folder / "output"),
        "CONTENT_AI_LIBRARY__FOLDERS": str(folder / "library"),
        "CONTENT_AI_LIBRARY__SETTLE_S": "0",
        "CONTENT_AI_WORKERS": str(workers),
        "DAGSTER_HOME": str(folder / "state" / "dagster"),
    }
    with patched_environment(given):
        yield load().settings


def processed(library: Path, settings: Settings, count: int) -> list[str]:
    """Many small files that the manifest knows as done; returns their keys."""
    paths = [library / f"{number:06}.mp4" for number in range(count)]
    for path in paths:
        path.write_bytes(path.name.encode())
    recipe = recipe_of(settings)
    videos = [_remembered(path, library, recipe) for path in paths]
    open_manifest(settings).restore(videos, {recipe.config_hash: recipe.as_json()}, "bench")
    return [path.stem for path in paths]


def _remembered(path: Path, library: Path, recipe: Recipe) -> RecordedVideo:
    now = datetime.now(UTC)
    video = KnownVideo(path, library, path.stem, str(Signature.of(path.stat())), "sha256:x", f"blake3:{path.stem}")
    return RecordedVideo(
        video, now, RecordedResult(JobResult(video_key=path.stem, config_hash=recipe.config_hash), now)
    )
