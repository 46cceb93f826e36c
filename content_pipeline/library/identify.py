"""Tell which video a file is, reading as little of it as that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from content_pipeline.errors import MissingFile, PipelineError
from content_pipeline.library.keys import new_key
from content_pipeline.library.presence import is_offline, is_there
from content_pipeline.manifest.videos import KnownVideo, Videos
from content_pipeline.media.fingerprint import full_digest, quick_digest
from content_pipeline.media.source import Source, open_source


def identify(path: Path, root: Path, known: Videos, alive: Callable[[], None] = lambda: None) -> KnownVideo:
    """The video at `path`, remembered. An unchanged signature reads nothing; a new file, five samples.

    `alive` is called while a file has to be read in full.
    """
    with open_source(path, root) as source:
        before = known.at(path)
        if before is not None and source.signature.matches(before.signature):
            return before
        video = _look_closer(source, root, before, known, alive)
    known.save(video)
    return video


def likely_key(path: Path, root: Path, known: Videos) -> str:
    """The key that `identify` will most likely find, from five samples at most; nothing is remembered.

    Equal samples are taken for equal content here: to be sure, both files would have to be read in full.
    """
    with open_source(path, root) as source:
        before = known.at(path)
        if before is not None and source.signature.matches(before.signature):
            return before.key
        quick = quick_digest(source)
    twin = next((other for other in known.with_quick(quick) if other.path != path), None)
    if twin is not None:
        return twin.key
    if before is not None and all(other.path == before.path for other in known.with_key(before.key)):
        return before.key
    return new_key(path, quick, known.has_key)


def _look_closer(
    source: Source, root: Path, before: KnownVideo | None, known: Videos, alive: Callable[[], None]
) -> KnownVideo:
    seen = KnownVideo(source.path, root, "", str(source.signature), quick_digest(source), None)
    if (same := _same_content(seen, source, known, alive)) is not None:
        return same
    if before is not None and all(other.path == before.path for other in known.with_key(before.key)):
        return replace(seen, key=before.key)  # edited in place: still the same video
    return replace(seen, key=new_key(source.path, seen.quick, known.has_key))


def _same_content(seen: KnownVideo, source: Source, known: Videos, alive: Callable[[], None]) -> KnownVideo | None:
    """The same recording at another path: moved, renamed or copied. Equal samples are checked in full."""
    twins = [other for other in known.with_quick(seen.quick) if other.path != seen.path]
    if not twins:
        return None
    full = full_digest(source, progress=lambda _fraction: alive())
    for twin in twins:
        if _holds(twin, full, known, alive):
            if not is_there(twin.path) and not is_offline(twin.path, twin.signature):
                known.forget(twin.path)
            return replace(seen, key=twin.key, full=full)
    return None


def _holds(video: KnownVideo, full: str, known: Videos, alive: Callable[[], None]) -> bool:
    if video.full is not None:
        return video.full == full
    try:
        with open_source(video.path, video.root) as source:
            digest = full_digest(source, progress=lambda _fraction: alive())
            if source.signature.matches(video.signature):
                known.save(replace(video, full=digest))
            return digest == full
    except MissingFile:
        return True  # it moved before it was ever read in full: nothing is known that could be mistaken
    except PipelineError:
        return False
