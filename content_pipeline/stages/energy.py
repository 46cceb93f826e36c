"""Energy: the sound as curves, decoded once and kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from content_pipeline.artifacts import Draft
from content_pipeline.media.curves.model import Curves, load, store
from content_pipeline.stages.context import StageContext, StageResult, obtain
from content_pipeline.stages.fingerprint import FingerprintResult, VideoContent


@dataclass(frozen=True)
class EnergyResult:
    fingerprint: FingerprintResult
    result: StageResult

    @property
    def content(self) -> VideoContent:
        return self.fingerprint.content

    @property
    def track(self) -> int:
        """The audio track that detection reads and the montage plays."""
        return int(self.result.artifact.facts["track"])

    def curves(self) -> Curves:
        return load(self.result.artifact.path("curves.npz"))[self.track]


def energy_key(context: StageContext, content: str, media: str) -> str:
    """`content` is the digest of every byte, `media` that of the fingerprint's artifact."""
    return context.stage_key("energy", content=content, media=media)


def energy(context: StageContext, fingerprint: FingerprintResult) -> EnergyResult:
    content = fingerprint.content
    key = energy_key(context, **content.identity)
    result = obtain(context, "energy", key, lambda draft: _measure(draft, context, content))
    return EnergyResult(fingerprint, result)


def _measure(draft: Draft, context: StageContext, content: VideoContent) -> None:
    from content_pipeline.media.curves.measure import measure

    settings = context.settings
    with context.open_content(content.video_key, content.full) as source:
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
