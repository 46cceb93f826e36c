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

# The broadband curve is on the scale of RMS: of white noise it reads the same.
ENTER_DB = 5.0
LEAVE_BELOW_ENTER_DB = 3.0
# So an event enters 1.5 dB under the loudness around it: the noise alone is nearly as loud as all sound on average.
LOUDNESS_ALLOWANCE_DB = 6.5
# Share of the power that must be noise where an event enters: 1 for white noise, less than this for music.
NOISE_SHARE = 0.5
FLOOR_PERCENT = 10.0
SURROUNDINGS_S = 90.0
# A fight is more than one bang: this much time of entering sound, within this reach of the event.
BURST_S = 0.25
BURST_REACH_S = 2.0
# A walk has its doors and switches; where there is action, this much time in the surroundings is stronger by this much.
ACTION_S = 1.0
ACTION_DB = 1.0
# About 0.4 s: longer than the gaps inside a burst, shorter than those between bursts.
SMOOTHING_FRAMES = 17
# Below this there is nothing to hear: absolutely (under 16 bits), and beside the recording's loudest.
SILENCE_DB = -100.0
HEARD_RANGE_DB = 60.0

_LOWEST_SHOWN_DB = -20.0

WEAK_CONTRAST = "weak contrast"
DROWNED = "drowned by louder sound"
TONAL = "tonal"
ISOLATED = "isolated"
UNEVENTFUL = "uneventful stretch"
TOO_SHORT = "too short"


@dataclass(frozen=True, eq=False)
class _Sound:
    """Power per frame: of everything (`whole`), of what is broadband, of that smoothed; and where there is any."""

    whole: Frames
    broadband: Frames
    smooth: Frames
    heard: Mask

    @classmethod
    def of(cls, curves: Curves) -> _Sound:
        # A decoder may overshoot full scale twentyfold on clipped sound; a player stops there, and so does this.
        whole = np.square(curves.rms, dtype=np.float64).clip(max=1.0)
        broadband = np.square(curves.broadband, dtype=np.float64).clip(max=1.0)
        smooth = moving_mean(broadband, SMOOTHING_FRAMES)
        return cls(whole, broadband, smooth, _heard(smooth))


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Per frame: decibels over the floor; over floor and loudness both (`contrast`), smoothed and as it is
    (`sharp`); whether the sound is mostly noise."""

    over_floor: Frames
    contrast: Frames
    sharp: Frames
    is_noise: Mask


class BroadbandDetector:
    """An event is a run of frames above the leaving contrast with, somewhere in it, a frame above the entering
    contrast that is mostly noise, and enough of such frames around it. Both contrasts move together with the
    settings and every rule asks for more of the same, so that a higher threshold never finds more time.

    The score is the broadband energy of the event in seconds of the recording's average: 12 means "as much
    as twelve ordinary seconds". It does not depend on the level of the recording.
    """

    def __init__(self, settings: DetectionSettings) -> None:
        self._settings = settings

    @property
    def enter_db(self) -> float:
        asked = self._settings
        return ENTER_DB * asked.sensitivity / 2.5 + 20 * math.log10(asked.rms_threshold / 0.10)

    @property
    def _surroundings_s(self) -> float:
        return SURROUNDINGS_S if self._settings.adaptive_threshold else math.inf

    def detect(self, curves: Curves) -> Detection:
        sound = _Sound.of(curves)
        if not sound.heard.any():
            return self._detection((), np.full(len(sound.heard), _LOWEST_SHOWN_DB))
        evidence = self._evidence(sound)
        return self._detection(self._candidates(evidence, sound), evidence.contrast)

    def _evidence(self, sound: _Sound) -> _Evidence:
        level = _decibels(sound.smooth)
        floor = rolling_percentile(level, sound.heard, self._surroundings_s, FLOOR_PERCENT)
        loudness = _decibels(rolling_mean(sound.whole, sound.heard, self._surroundings_s))
        reference = np.maximum(floor, loudness - LOUDNESS_ALLOWANCE_DB)
        return _Evidence(
            over_floor=level - floor,
            contrast=level - reference,
            sharp=_decibels(sound.broadband) - reference,
            is_noise=sound.smooth > NOISE_SHARE * moving_mean(sound.whole, SMOOTHING_FRAMES),
        )

    def _candidates(self, evidence: _Evidence, sound: _Sound) -> tuple[Candidate, ...]:
        leave_db = self.enter_db - LEAVE_BELOW_ENTER_DB
        wide = runs(sound.heard & (evidence.contrast > leave_db))
        # Smoothing spreads a shot over its neighbours; the unsmoothed curve says where it starts and ends.
        exact = narrowed(wide, evidence.sharp > leave_db)
        rules = self._dropped_by(evidence, wide, exact)
        spans = np.where((exact[:, 0] < exact[:, 1])[:, None], exact, wide)
        second = sound.broadband[sound.heard].mean() * FRAME_RATE_HZ
        scores = over_runs(np.add, sound.broadband, spans) / second
        return tuple(
            Candidate(Span(first / FRAME_RATE_HZ, end / FRAME_RATE_HZ), score, rule)
            for (first, end), score, rule in zip(spans.tolist(), scores.tolist(), rules, strict=True)
        )

    def _dropped_by(self, evidence: _Evidence, wide: Runs, exact: Runs) -> list[str | None]:
        """The first rule that each run fails, None for an event."""
        enters = evidence.contrast > self.enter_db
        enters_as_noise = enters & evidence.is_noise
        is_strong = evidence.is_noise & (evidence.contrast > self.enter_db + ACTION_DB)
        duration_s = (exact[:, 1] - exact[:, 0]) / FRAME_RATE_HZ
        passed = {
            WEAK_CONTRAST: over_runs(np.logical_or, evidence.over_floor > self.enter_db, wide),
            DROWNED: over_runs(np.logical_or, enters, wide),
            TONAL: over_runs(np.logical_or, enters_as_noise, wide),
            ISOLATED: _time_around_s(enters_as_noise, wide, BURST_REACH_S) >= BURST_S,
            UNEVENTFUL: _time_around_s(is_strong, wide, self._surroundings_s) >= ACTION_S,
            TOO_SHORT: (duration_s > 0) & (duration_s >= self._settings.min_event_duration_s),
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


def _time_around_s(mask: Mask, of: Runs, reach_s: float) -> Frames:
    """How long the mask is true in each run and within reach of it."""
    reach = round(min(reach_s * FRAME_RATE_HZ, len(mask)))
    before = np.concatenate(([0], np.cumsum(mask)))
    counts = before[(of[:, 1] + reach).clip(max=len(mask))] - before[(of[:, 0] - reach).clip(min=0)]
    return np.asarray(counts / FRAME_RATE_HZ)


def _decibels(power: Frames) -> Frames:
    return np.asarray(10 * np.log10(np.maximum(power, 1e-20)))
