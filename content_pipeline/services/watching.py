"""Watched folders: enqueue what is new or edited, and at night what changed settings made out of date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from content_pipeline.errors import PipelineError, printable
from content_pipeline.library.scan import scan
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobTerms
from content_pipeline.services.document import Document
from content_pipeline.services.planner import Enqueued, Planner
from content_pipeline.services.recordings import output_ownership
from content_pipeline.settings import Settings


class WatchedFolder(Document):
    """What was done about a folder; `error` if it could not be looked at."""

    folder: str
    videos: int = 0
    enqueued: int = 0
    unsettled: int = 0
    changed_outputs: tuple[str, ...] = ()
    error: str | None = None
    hint: str | None = None

    @property
    def in_words(self) -> str:
        if self.error is not None:
            return f"{printable(self.folder)}: {self.error}"
        done = f"{printable(self.folder)}: {self.enqueued} enqueued, {self.unsettled} not settled yet"
        changed = ", ".join(printable(path) for path in self.changed_outputs)
        return f"{done}; passed over, for a montage was published under the name: {changed}" if changed else done


class WatchDocument(Document):
    """`moving`: the signatures of files that have to look the same once more before they are taken."""

    folders: tuple[WatchedFolder, ...]
    moving: dict[str, str]


def watch(settings: Settings, manifest: Manifest, seen: Mapping[str, str]) -> WatchDocument:
    """Enqueue what is new or edited in the watched folders. `seen` is `moving` of the last look."""
    planner = Planner(settings, manifest)
    ownership_of = output_ownership(settings, manifest)
    folders: list[WatchedFolder] = []
    moving: dict[str, str] = {}
    for folder in settings.library.folders:
        try:
            done = planner.watch(scan(folder, settings.library, ownership_of), seen)
        except PipelineError as error:
            folders.append(_failed(folder, error))
            continue
        moving |= {str(found.path): str(found.signature) for found in done.unsettled}
        folders.append(_watched(folder, done))
    return WatchDocument(folders=tuple(folders), moving=moving)


def backfill(settings: Settings, manifest: Manifest, priority: int) -> Sequence[WatchedFolder]:
    """Enqueue everything in the watched folders that is out of date, with a priority of its own."""
    planner = Planner(settings, manifest, JobTerms(priority=priority))
    ownership_of = output_ownership(settings, manifest)
    folders: list[WatchedFolder] = []
    for folder in settings.library.folders:
        try:
            folders.append(_watched(folder, planner.enqueue(scan(folder, settings.library, ownership_of))))
        except PipelineError as error:
            folders.append(_failed(folder, error))
    return folders


def _watched(folder: Path, done: Enqueued) -> WatchedFolder:
    return WatchedFolder(
        folder=str(folder),
        videos=len(done.planned.videos),
        enqueued=len(done.jobs),
        unsettled=len(done.unsettled),
        changed_outputs=tuple(str(path) for path in done.changed_outputs),
    )


def _failed(folder: Path, error: PipelineError) -> WatchedFolder:
    """One folder that is away does not keep the others waiting."""
    return WatchedFolder(folder=str(folder), error=str(error), hint=error.hint)
