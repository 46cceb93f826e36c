"""Fingerprint: what the file holds and what it says of itself."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from content_pipeline.artifacts import Draft
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.media.fingerprint import Fingerprint
from content_pipeline.media.fingerprint import fingerprint as read_fingerprint
from content_pipeline.media.probe import MediaInfo, probe
from content_pipeline.media.source import Source
from content_pipeline.stages.context import StageContext, StageResult, obtain


@dataclass(frozen=True)
class Content:
    """The identity that every later key hangs on."""

    result: StageResult
    full: str
    info: MediaInfo

    @property
    def identity(self) -> dict[str, str]:
        """What later keys hang on: every byte, and what was understood of the file."""
        return {"content": self.full, "media": self.result.artifact.digest}


def fingerprint(context: StageContext, video_key: str) -> Content:
    started = time.monotonic()
    with context.open_video(video_key) as (source, known):
        content = _read(context, source, known)
        key = context.stage_key("fingerprint", content=content.full)
        result = obtain(context, "fingerprint", key, lambda draft: _describe(draft, context, source, content))
        source.check_unchanged()
    info = MediaInfo.from_json(result.artifact.read_json("media.json"))
    return Content(replace(result, seconds=time.monotonic() - started), content.full, info)


def _read(context: StageContext, source: Source, known: KnownVideo) -> Fingerprint:
    """What the file holds; nothing is read while its signature is the one last read."""
    unchanged = known.full is not None and known.signature == str(source.signature)
    if known.full is not None and unchanged and not _must_read(context, known.full):
        return Fingerprint(known.quick, known.full, source.signature.size_bytes)
    content = read_fingerprint(source, lambda fraction: context.progress("fingerprint", fraction), context.cores)
    context.videos.save(replace(known, signature=str(source.signature), quick=content.quick, full=content.full))
    return content


def _must_read(context: StageContext, full: str) -> bool:
    """Forced, the file is read again; once, for then there is an artifact that was made for it."""
    key = context.stage_key("fingerprint", content=full)
    return context.force_id is not None and context.reusable("fingerprint", key) is None


def _describe(draft: Draft, context: StageContext, source: Source, content: Fingerprint) -> None:
    info = probe(source)
    draft.write_json("media.json", info.as_json())
    draft.facts = {
        "quick": content.quick,
        "full": content.full,
        "size_bytes": content.size_bytes,
        "duration_s": info.duration_s,
    }
