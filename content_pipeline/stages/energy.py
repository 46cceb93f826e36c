"""Energy: the sound as curves, decoded once and kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from content_pipeline.artifacts import Draft
from content_pipeline.media.curves.model import Curves, load, store
from content_pipeline.stages.context import StageContext, StageResult, obtain
from content_pipeline.stages.fingerprint import Content, fingerprint


@dataclass(frozen=True)
class Sound:
    content: Content
    result: StageResult

    @property
    def track(self) -> int:
        """The track that detection reads and the montage plays."""
        return int(self.result.artifact.facts["track"])

    def curves(self) -> Curves:
        return load(self.result.artifact.path("curves.npz"))[self.track]


def energy(context: StageContext, video_key: str) -> Sound:
    content = fingerprint(context, video_key)
    key = context.stage_key("energy", **content.identity)
    return Sound(content, obtain(context, "energy", key, lambda draft: _measure(draft, context, video_key, content)))


def _measure(draft: Draft, context: StageContext, video_key: str, content: Content) -> None:
    from content_pipeline.media.curves.measure import measure

    settings = context.settings
    with context.open_content(video_key, content.full) as source:
        measured = measure(
            source,
            content.info,
            settings.energy,
            settings.detection.hpss_margin,
            lambda fraction: context.progress("energy", fraction),
            context.cores,
        )
    store(draft.path("curves.npz"), measured.tracks)
    draft.facts = {
        "track": measured.primary,
        "tracks": len(content.info.audio),
        "reports": [asdict(report) for report in measured.reports.values()],
    }
