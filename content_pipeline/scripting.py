"""What a Python program calls in place of a command; the command line's `process` does the same for a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from content_pipeline.dagster_runtime.lost_manifest import recover
from content_pipeline.execution.outcome import Outcome
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.processing import NoProgress, Processor
from content_pipeline.services.recordings import find_recordings
from content_pipeline.settings import Settings, load

if TYPE_CHECKING:
    from dagster import Definitions


def process_folder(
    folder: Path | str, settings: Settings | None = None, force: bool = False, limit: int | None = None
) -> Sequence[Outcome]:
    """Bring a folder of recordings, or one recording, up to date; returns what became of each.

    Only what is new or changed is done, with `force` everything; with `limit` at most so many that need work. A video
    that fails has an outcome with its error; raised is only what stops all of them. Stopped at any moment, the same
    call continues where it was.
    """
    settings = load().settings if settings is None else settings
    manifest = open_manifest(settings)
    recover(settings, manifest)
    found = find_recordings(settings, Path(folder), manifest)
    processor = Processor(settings, manifest, NoProgress(), force)
    processor.work(_definitions, processor.enqueue(found, limit))
    return processor.outcomes


def _definitions(settings: Settings) -> Definitions:
    from content_pipeline.definitions import build_definitions

    return build_definitions(settings)
