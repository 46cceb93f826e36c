"""Energy: the sound as curves, decoded once and kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from content_pipeline.artifacts import Draft
from content_pipeline.media.curves import Curves, load, store
from content_pipeline.stages.fingerprint import Content, fingerprint
from content_pipeline.stages.workbench import StageResult, Workbench, obtain


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


def energy(bench: Workbench, video_key: str) -> Sound:
    content = fingerprint(bench, video_key)
    key = bench.stage_key("energy", **content.identity)
    return Sound(content, obtain(bench, "energy", key, lambda draft: _measure(draft, bench, video_key, content)))


def _measure(draft: Draft, bench: Workbench, video_key: str, content: Content) -> None:
    from content_pipeline.media.energy import measure

    settings = bench.settings
    with bench.open_content(video_key, content.full) as source:
        measured = measure(
            source,
            content.info,
            settings.energy,
            settings.detection.hpss_margin,
            lambda fraction: bench.progress("energy", fraction),
            bench.cores,
        )
    store(draft.path("curves.npz"), measured.tracks)
    draft.facts = {
        "track": measured.primary,
        "tracks": len(content.info.audio),
        "reports": [asdict(report) for report in measured.reports.values()],
    }
