"""One audio track that is to be measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.source import Source


@dataclass(frozen=True)
class TrackTask:
    """What to measure, and whom to tell how far it has come."""

    source: Source
    info: MediaInfo
    track: int
    hpss_margin: tuple[float, float]
    progress: Callable[[float], None]

    @property
    def duration_s(self) -> float:
        declared_s = self.info.audio[self.track].declared_duration_s
        return self.info.duration_s if declared_s is None else max(declared_s, self.info.duration_s)
