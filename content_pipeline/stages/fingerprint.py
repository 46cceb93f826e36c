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
class VideoContent:
    """The content of a video: the digest of every byte, and what was understood of the file."""

    video_key: str
    full: str
    media_digest: str
    info: MediaInfo

    @property
    def identity(self) -> dict[str, str]:
        """What the keys of all later stages depend on."""
        return {"content": self.full, "media": self.media_digest}


@dataclass(frozen=True)
class FingerprintResult:
    result: StageResult
    content: VideoContent


def fingerprint_key(context: StageContext, full: str) -> str:
    return context.stage_key("fingerprint", content=full)


def fingerprint(context: StageContext, video_key: str) -> FingerprintResult:
    started = time.monotonic()
    with context.open_video(video_key) as (source, known):
        read = _read(context, source, known)
        key = fingerprint_key(context, read.full)
        result = obtain(context, "fingerprint", key, lambda draft: _describe(draft, source, read))
        source.check_unchanged()
    info = MediaInfo.from_json(result.artifact.read_json("media.json"))
    content = VideoContent(video_key, read.full, result.artifact.digest, info)
    return FingerprintResult(replace(result, seconds=time.monotonic() - started), content)


def _read(context: StageContext, source: Source, known: KnownVideo) -> Fingerprint:
    """The digests of the file. While its signature is the one that was last read, nothing is read."""
    unchanged = known.full is not None and source.signature.matches(known.signature)
    if known.full is not None and unchanged and not _must_read(context, known.full):
        return Fingerprint(known.quick, known.full, source.signature.size_bytes)
    read = read_fingerprint(source, lambda fraction: context.progress("fingerprint", fraction), context.cores)
    context.videos.save(replace(known, signature=str(source.signature), quick=read.quick, full=read.full))
    return read


def _must_read(context: StageContext, full: str) -> bool:
    """A forced job reads the file again, once: the artifact that it made then says so."""
    forced = context.force_of("fingerprint") is not None
    return forced and context.reusable("fingerprint", fingerprint_key(context, full)) is None


def _describe(draft: Draft, source: Source, read: Fingerprint) -> None:
    info = probe(source)
    draft.write_json("media.json", info.as_json())
    draft.facts = {
        "quick": read.quick,
        "full": read.full,
        "size_bytes": read.size_bytes,
        "duration_s": info.duration_s,
    }
