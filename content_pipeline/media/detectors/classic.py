"""The documented detector: percussive RMS above one threshold for the whole recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves import FRAME_RATE_HZ, Curves
from content_pipeline.media.detector import Candidate, Detection
from content_pipeline.media.detectors.runs import runs
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings

if TYPE_CHECKING:
    from content_pipeline.media.curves import Curve


class ClassicDetector:
    """An event is a run of frames whose percussive RMS passes the threshold; its score is the peak RMS.

    Absolute: a recording made at a low level has no events. `broadband` has no such limit.
    """

    def __init__(self, settings: DetectionSettings) -> None:
        self._settings = settings

    def detect(self, curves: Curves) -> Detection:
        level = curves.percussive
        threshold = self._threshold(level)
        return Detection(
            candidates=tuple(self._candidate(level, first, end) for first, end in runs(level > threshold).tolist()),
            level=level,
            threshold=np.full(len(level), threshold, np.float32),
            unit="RMS",
        )

    def _threshold(self, level: Curve) -> float:
        fixed = self._settings.rms_threshold
        if not self._settings.adaptive_threshold or len(level) == 0:
            return fixed
        usual, spread = level.mean(dtype=np.float64), level.std(dtype=np.float64)
        return max(float(usual + self._settings.sensitivity * spread), fixed)

    def _candidate(self, level: Curve, first: int, end: int) -> Candidate:
        span = Span(first / FRAME_RATE_HZ, end / FRAME_RATE_HZ)
        is_short = span.duration_s < self._settings.min_event_duration_s
        return Candidate(span, float(level[first:end].max()), "too short" if is_short else None)
