"""Find the recordings of a folder, and say what was passed over."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from content_pipeline.errors import LibraryOffline, MissingFile, counted
from content_pipeline.library.keys import canonical_path
from content_pipeline.library.scan import Ownership, Scan, count_unsearched_folders, scan
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.publications import Publication
from content_pipeline.publishing.publish import holds_publication
from content_pipeline.publishing.sidecar import is_montage
from content_pipeline.services.document import Document
from content_pipeline.settings import Settings


class CalibrationInUse(Document):
    """The value that this library uses in place of the settings."""

    setting: str
    value: float


class FoundRecordings(Document):
    """What a scan found. `passed_over`: what ends like a recording and is none, by kind; `other_endings`: other files.

    `unsearched_folders` counts sub-folders with recordings that were not entered; `changed_outputs` are files with the
    name of a montage that hold something else.
    """

    root: str
    recordings: int
    refused: int
    extensions: tuple[str, ...]
    passed_over: dict[str, int]
    other_endings: dict[str, int]
    likely_recordings: dict[str, int]
    unsearched_folders: int
    changed_outputs: tuple[str, ...]
    calibration: CalibrationInUse | None


def output_ownership(settings: Settings, manifest: Manifest) -> Callable[[Path], Ownership]:
    """What a scan must not take for recordings: our state, and what we published.

    A file with the name of a montage that holds something else may be a recording or an edited montage: it is one of
    the recordings once a person has processed it by its name.
    """
    state = os.path.realpath(settings.state_dir)
    state_name = Path(state).name
    real_folder = cache(os.path.realpath)

    @cache
    def published() -> dict[str, Publication]:
        return {f"{real_folder(row.path.parent)}/{row.path.name}": row for row in manifest.publications.montages()}

    def ownership_of(path: Path) -> Ownership:
        if path.name == state_name and os.path.realpath(path) == state:
            return Ownership.OURS
        if path.suffix.lower() != ".mp4":
            return Ownership.THEIRS
        row = published().get(f"{real_folder(path.parent)}/{path.name}")
        # By what lies beside it also when the manifest was lost, or it was published from another state folder.
        if is_montage(path) if row is None else holds_publication(path, row):
            return Ownership.OURS
        return Ownership.THEIRS if row is None or manifest.videos.at(path) is not None else Ownership.CHANGED

    return ownership_of


def find_recordings(settings: Settings, target: Path, manifest: Manifest) -> Scan:
    """Scan a folder, or a single recording. What is away, but known, is offline and not missing."""
    try:
        return scan(target, settings.library, output_ownership(settings, manifest))
    except MissingFile as error:
        known = manifest.videos.signatures_under(canonical_path(target))
        if not known:
            raise
        videos = counted(len(known), "video")
        raise LibraryOffline(f"{error}, but the manifest knows {videos} there: is it mounted?") from error


def describe_found(settings: Settings, target: Path, found: Scan, manifest: Manifest) -> FoundRecordings:
    applied = manifest.calibrations.of_library(found.root)
    in_use = applied is not None and applied.counts_for(settings)
    return FoundRecordings(
        root=str(found.root),
        recordings=len(found.recordings),
        refused=len(found.refused),
        extensions=tuple(settings.library.extensions),
        passed_over=dict(found.passed_over),
        other_endings=dict(found.other_endings),
        likely_recordings=found.likely_recordings,
        unsearched_folders=count_unsearched_folders(target, settings.library, output_ownership(settings, manifest)),
        changed_outputs=tuple(str(path) for path in found.changed_outputs),
        calibration=CalibrationInUse(setting=applied.name, value=applied.value)
        if applied is not None and in_use
        else None,
    )
