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
from content_pipeline.stages.workbench import StageResult, Workbench, obtain


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


def fingerprint(bench: Workbench, video_key: str) -> Content:
    started = time.monotonic()
    with bench.open_video(video_key) as (source, known):
        content = _read(bench, source, known)
        key = bench.stage_key("fingerprint", content=content.full)
        result = obtain(bench, "fingerprint", key, lambda draft: _describe(draft, bench, source, content))
        source.check_unchanged()
    info = MediaInfo.from_json(result.artifact.read_json("media.json"))
    return Content(replace(result, seconds=time.monotonic() - started), content.full, info)


def _read(bench: Workbench, source: Source, known: KnownVideo) -> Fingerprint:
    """What the file holds; nothing is read while its signature is the one last read."""
    unchanged = known.full is not None and known.signature == str(source.signature)
    if known.full is not None and unchanged and not _must_read(bench, known.full):
        return Fingerprint(known.quick, known.full, source.signature.size_bytes)
    content = read_fingerprint(source, lambda fraction: bench.progress("fingerprint", fraction), bench.cores)
    bench.videos.save(replace(known, signature=str(source.signature), quick=content.quick, full=content.full))
    return content


def _must_read(bench: Workbench, full: str) -> bool:
    """Forced, the file is read again; once, for then there is an artifact that was made for it."""
    key = bench.stage_key("fingerprint", content=full)
    return bench.force_id is not None and bench.reusable("fingerprint", key) is None


def _describe(draft: Draft, bench: Workbench, source: Source, content: Fingerprint) -> None:
    info = probe(source)
    draft.write_json("media.json", info.as_json())
    draft.facts = {
        "quick": content.quick,
        "full": content.full,
        "size_bytes": content.size_bytes,
        "duration_s": info.duration_s,
    }
