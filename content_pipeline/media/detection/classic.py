"""The documented detector: percussive RMS above one threshold for the whole recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves.model import FRAME_RATE_HZ, Curves
from content_pipeline.media.detection.detector import CandidateTable, Detection, check_same_kind
from content_pipeline.media.detection.stretches import over_stretches, stretches_where
from content_pipeline.settings import DetectionSettings

if TYPE_CHECKING:
    from content_pipeline.media.curves.model import Curve


@dataclass(frozen=True, eq=False)
class ClassicEvidence:
    """An event is a stretch of frames whose percussive RMS passes the threshold; its score is the peak RMS.

    Absolute: a recording made at a low level has no events. `broadband` has no such limit.
    """

    level: Curve
    usual: float  # the mean of the level
    spread: float  # its standard deviation
    adaptive: bool

    @classmethod
    def of(cls, curves: Curves, adaptive: bool) -> ClassicEvidence:
        level = curves.percussive
        if len(level) == 0:
            return cls(level, 0.0, 0.0, adaptive)
        return cls(level, float(level.mean(dtype=np.float64)), float(level.std(dtype=np.float64)), adaptive)

    def decide(self, settings: DetectionSettings) -> Detection:
        check_same_kind(settings, "classic", self.adaptive)
        threshold = self._threshold(settings)
        return Detection(
            candidate_table=self._candidates(threshold, settings.min_event_duration_s),
            level=self.level,
            threshold=np.full(len(self.level), threshold, np.float32),
            unit="RMS",
        )

    def _threshold(self, settings: DetectionSettings) -> float:
        if not self.adaptive:
            return settings.rms_threshold
        return max(self.usual + settings.sensitivity * self.spread, settings.rms_threshold)

    def _candidates(self, threshold: float, shortest_s: float) -> CandidateTable:
        above = stretches_where(self.level > threshold)
        starts_s, ends_s = (above / FRAME_RATE_HZ).T
        return CandidateTable(
            starts_s,
            ends_s,
            scores=over_stretches(np.maximum, self.level, above),
            rule=(ends_s - starts_s >= shortest_s).astype(np.intp),
            rules=("too short",),
        )
