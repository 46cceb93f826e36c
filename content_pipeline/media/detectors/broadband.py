"""The default detector: loud across the whole spectrum at once, against what the recording sounds like around it.

Shots, explosions and crowds are noise; music and speech are tones. The broadband curve holds the noise,
so an event is a stretch of that curve which stands out from its surroundings twice over: above its own
floor, and not far under the loudness of everything. Everything is a ratio: the same recording made 24 dB
quieter has the same events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves import FRAME_RATE_HZ, Curves
from content_pipeline.media.detector import Candidate, Detection
from content_pipeline.media.detectors.runs import narrowed, over_runs, runs
from content_pipeline.media.detectors.surroundings import moving_mean, rolling_mean, rolling_percentile
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings

if TYPE_CHECKING:
    from content_pipeline.media.detectors.runs import Runs
    from content_pipeline.media.detectors.surroundings import Frames, Mask

# Each of these may move by a quarter either way with little effect on labelled recordings.
ENTER_DB = 5.0
LEAVE_BELOW_ENTER_DB = 3.0
# An event enters 4 dB under the loudness around it: noise at the level of all sound together reads 3 dB under.
LOUDNESS_ALLOWANCE_DB = 9.0
# Of the power at its strongest, this share must be noise; white noise has 1, music 0.1 to 0.5.
NOISE_SHARE = 0.6
FLOOR_PERCENT = 10.0
SURROUNDINGS_S = 90.0
# About 0.4 s: longer than the gaps inside a burst, shorter than those between bursts.
SMOOTHING_FRAMES = 17
# Below this there is nothing to hear: absolutely (under 16 bits), and beside the recording's loudest.
SILENCE_DB = -100.0
HEARD_RANGE_DB = 40.0

# The broadband curve keeps half of the power of white noise: the smaller of each value and the median of its
# neighbours. The share is given relative to that.
_WHITE_NOISE_POWER = 0.5
_LOWEST_SHOWN_DB = -20.0

WEAK_CONTRAST = "weak contrast"
DROWNED = "drowned by louder sound"
TONAL = "tonal"
TOO_SHORT = "too short"


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Per frame: decibels over the floor; the same, limited by loudness (`contrast`); the same unsmoothed
    (`sharp`); whether the sound is mostly noise; whether there is any sound."""

    over_floor: Frames
    contrast: Frames
    sharp: Frames
    is_noise: Mask
    heard: Mask


class BroadbandDetector:
    """An event is a run of frames above the leaving contrast with, somewhere in it, a frame above the entering
    contrast that is mostly noise. Both contrasts move together with the settings, so that a higher threshold
    never finds more time.

    The score is the broadband energy of the event in seconds of the recording's average: 12 means "as much
    as twelve ordinary seconds". It does not depend on the level of the recording.
    """

    def __init__(self, settings: DetectionSettings) -> None:
        self._settings = settings

    @property
    def enter_db(self) -> float:
        asked = self._settings
        return ENTER_DB * asked.sensitivity / 2.5 + 20 * math.log10(asked.rms_threshold / 0.10)

    def detect(self, curves: Curves) -> Detection:
        power = np.square(curves.broadband, dtype=np.float64)
        heard = _heard(moving_mean(power, SMOOTHING_FRAMES))
        if not heard.any():
            return self._detection((), np.full(len(power), _LOWEST_SHOWN_DB))
        evidence = self._evidence(curves, power, heard)
        return self._detection(self._candidates(evidence, power), evidence.contrast)

    def _evidence(self, curves: Curves, power: Frames, heard: Mask) -> _Evidence:
        every_power = np.square(curves.rms, dtype=np.float64)
        smooth = moving_mean(power, SMOOTHING_FRAMES)
        level = _decibels(smooth)
        window_s = SURROUNDINGS_S if self._settings.adaptive_threshold else math.inf
        floor = rolling_percentile(level, heard, min(window_s, curves.duration_s), FLOOR_PERCENT)
        loudness = _decibels(rolling_mean(every_power, heard, min(window_s, curves.duration_s)))
        reference = np.maximum(floor, loudness - LOUDNESS_ALLOWANCE_DB)
        share = smooth / (_WHITE_NOISE_POWER * np.maximum(moving_mean(every_power, SMOOTHING_FRAMES), 1e-30))
        return _Evidence(
            over_floor=level - floor,
            contrast=level - reference,
            sharp=_decibels(power) - reference,
            is_noise=share > NOISE_SHARE,
            heard=heard,
        )

    def _candidates(self, evidence: _Evidence, power: Frames) -> tuple[Candidate, ...]:
        leave_db = self.enter_db - LEAVE_BELOW_ENTER_DB
        wide = runs(evidence.heard & (evidence.contrast > leave_db))
        # Smoothing spreads a shot over its neighbours; the unsmoothed curve says where it starts and ends.
        exact = narrowed(wide, evidence.sharp > leave_db)
        rules = self._dropped_by(evidence, wide, exact)
        spans = np.where((exact[:, 0] < exact[:, 1])[:, None], exact, wide)
        scores = over_runs(np.add, power, spans) / (power[evidence.heard].mean() * FRAME_RATE_HZ)
        return tuple(
            Candidate(Span(first / FRAME_RATE_HZ, end / FRAME_RATE_HZ), score, rule)
            for (first, end), score, rule in zip(spans.tolist(), scores.tolist(), rules, strict=True)
        )

    def _dropped_by(self, evidence: _Evidence, wide: Runs, exact: Runs) -> list[str | None]:
        """The first rule that each run fails, None for an event."""
        enters = evidence.contrast > self.enter_db
        duration_s = (exact[:, 1] - exact[:, 0]) / FRAME_RATE_HZ
        is_long = (duration_s > 0) & (duration_s >= self._settings.min_event_duration_s)
        passed = {
            WEAK_CONTRAST: over_runs(np.logical_or, evidence.over_floor > self.enter_db, wide),
            DROWNED: over_runs(np.logical_or, enters, wide),
            TONAL: over_runs(np.logical_or, enters & evidence.is_noise, wide),
            TOO_SHORT: is_long,
        }
        return [
            next((rule for rule, is_met in zip(passed, row, strict=True) if not is_met), None)
            for row in zip(*(column.tolist() for column in passed.values()), strict=True)
        ]

    def _detection(self, candidates: tuple[Candidate, ...], contrast: Frames) -> Detection:
        return Detection(
            candidates=candidates,
            level=np.maximum(contrast, _LOWEST_SHOWN_DB).astype(np.float32),
            threshold=np.full(len(contrast), self.enter_db, np.float32),
            unit="dB",
        )


def _heard(power: Frames) -> Mask:
    """Where there is sound at all; the loudest half per cent may be a fault and does not set the scale."""
    audible = power > 10 ** (SILENCE_DB / 10)
    if not audible.any():
        return audible
    loudest = np.percentile(power[audible], 99.5)
    return np.asarray(power > max(loudest * 10 ** (-HEARD_RANGE_DB / 10), 10 ** (SILENCE_DB / 10)))


def _decibels(power: Frames) -> Frames:
    return np.asarray(10 * np.log10(np.maximum(power, 1e-20)))
