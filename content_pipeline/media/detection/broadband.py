"""The default detector: loud across the whole spectrum at once, against what the recording sounds like around it.

Shots, explosions and crowds are noise; music and speech are tones. The broadband curve holds the noise,
so an event is a stretch of that curve which stands out from its surroundings twice over: above its own
floor, and not far under the loudness of everything. Doors, lifts and drums are noise too; what tells a blow
from them is punch, boom and crack at the same time. Everything is a ratio: the same recording made 24 dB
quieter has the same events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from content_pipeline.media.curves.memory import keep_freed_memory
from content_pipeline.media.curves.model import FRAME_RATE_HZ, Curves
from content_pipeline.media.detection.detector import CandidateTable, Detection, check_same_kind
from content_pipeline.media.detection.rolling_stats import (
    NODE_FRAMES,
    PERCENTILE_STEP,
    between_nodes,
    moving_mean,
    rolling_mean,
    rolling_percentile,
    step_sums,
)
from content_pipeline.media.detection.stretches import CountedFrames, narrowed, over_stretches, stretches_where
from content_pipeline.settings import DetectionSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from content_pipeline.media.detection.rolling_stats import Frames, Mask, Nodes
    from content_pipeline.media.detection.stretches import Stretches

ENTER_DB = 5.0
LEAVE_BELOW_ENTER_DB = 6.0
# Punch keeps no event going that does not stand out by itself.
EDGE_BELOW_ENTER_DB = 4.0
# The broadband curve is on the scale of RMS, of white noise it reads the same: so what is just punchy enough enters
# 2.5 dB under the loudness around it.
LOUDNESS_ALLOWANCE_DB = 7.5
# Contrast counts in full up to here, beyond by half: a door may be as loud as it likes.
CLEAR_DB = 8.0
# Punch beside the loudness of the same moment: shots have more than this, music and doors less, white noise -10 dB.
# A decibel more or less counts as four of contrast, up to a limit: punch alone is no event, nor is its lack the end.
PUNCH_STEP = 3  # frames; three steps are as long as the smoothing of contrast
PUNCH_DB = -9.0
PUNCH_WEIGHT = 4.0
MOST_LACK_DB, MOST_GAIN_DB = 8.0, 3.0
FLOOR_PERCENT = 10.0
SURROUNDINGS_S = 60.0
WHOLE_RECORDING_S = 1e9
# A fight is more than one bang: this much time of entering sound, within this reach of the event.
BURST_S = 0.2
BURST_REACH_S = 2.0
# And not the only one far and wide: so much entering sound in so much time, somewhere around.
ACTION_S = 0.4
ACTION_WITHIN_S = 10.0
ACTION_STEP = 43  # frames; about a second
# About 0.2 s: longer than the gaps inside a burst, shorter than those between bursts.
SMOOTHING_FRAMES = 9
# Below this there is nothing to hear: absolutely (under 16 bits), and beside the recording's loudest.
SILENCE_DB = -100.0
HEARD_RANGE_DB = 60.0

# What is not heard has this strength; nothing that stands out has as little.
LOWEST_DB = -20.0

WEAK_CONTRAST = "weak contrast"
DROWNED = "drowned by louder sound"
DULL = "no punch"
ISOLATED = "isolated"
UNEVENTFUL = "uneventful stretch"
TOO_SHORT = "too short"


@dataclass(frozen=True, eq=False)
class BroadbandEvidence:
    """Contrast is in decibels over floor and loudness both; strength is contrast, and what punch adds to it or takes
    away. An event is a stretch of frames that stand out, above the leaving strength, with, somewhere in it, a frame
    above the entering strength, and enough of such frames around it. All thresholds move together with the settings
    and every rule asks for more of the same, so that a higher threshold never finds more time.

    The score is the broadband energy of the event in seconds of the recording's average: 12 means "as much
    as twelve ordinary seconds". It does not depend on the level of the recording.

    `sharp` is the contrast without smoothing.
    """

    strength: Frames  # at its lowest where nothing is heard
    contrast: Frames
    sharp: Frames
    over_floor: Nodes  # by how much what contrast is measured from lies above the floor
    power: Frames  # of what is broadband
    average: float  # the power of an ordinary second
    adaptive: bool

    @classmethod
    def of(cls, curves: Curves, adaptive: bool) -> BroadbandEvidence:
        keep_freed_memory()
        power, whole = _power(curves.broadband), _power(curves.rms)
        smooth = moving_mean(power, SMOOTHING_FRAMES)
        heard = _heard(smooth)
        if not heard.any():
            lowest = np.full(len(power), LOWEST_DB, np.float32)
            return cls(lowest, lowest, lowest, np.zeros(1), power, 1.0, adaptive)
        floor = decibels(rolling_percentile(smooth, heard, _window_s(adaptive), FLOOR_PERCENT))
        loudness = decibels(rolling_mean(whole, heard, _window_s(adaptive)))
        nodes = np.fmax(floor, loudness - LOUDNESS_ALLOWANCE_DB)  # of a lonely click the floor may be unknown
        reference = between_nodes(nodes, len(power))
        punch = _punch(_power(curves.punch), whole)
        # Each array of an hour is half a megabyte that the system has to find: what is done with is written over.
        contrast = _contrast(smooth, reference, heard)
        return cls(
            strength=_strength(contrast, punch, heard),
            contrast=contrast,
            sharp=np.subtract(decibels(power, out=whole), reference, out=whole),
            over_floor=np.nan_to_num(nodes - floor),
            power=power,
            average=float(power.sum(dtype=np.float64)) / np.count_nonzero(heard) * FRAME_RATE_HZ,
            adaptive=adaptive,
        )

    def decide(self, settings: DetectionSettings) -> Detection:
        check_same_kind(settings, "broadband", self.adaptive)
        enter_db = entering_db(settings)
        return Detection(
            candidate_table=self._candidates(enter_db, settings.min_event_duration_s),
            level=self.strength,
            threshold=np.broadcast_to(np.float32(enter_db), self.strength.shape),
            unit="dB",
        )

    def _candidates(self, enter_db: float, shortest_s: float) -> CandidateTable:
        leave_db, edge_db = (
            max(enter_db - below_db, LOWEST_DB) for below_db in (LEAVE_BELOW_ENTER_DB, EDGE_BELOW_ENTER_DB)
        )
        wide = stretches_where((self.strength > leave_db) & (self.contrast > edge_db))
        # Smoothing spreads a shot over its neighbours; the unsmoothed curve says where it starts and ends.
        exact = narrowed(wide, self.sharp > edge_db)
        passed = self._passed(enter_db, shortest_s, wide, exact)
        failed = ~np.array([*passed.values()])
        spans = np.where((exact[:, 0] < exact[:, 1])[:, None], exact, wide)
        starts_s, ends_s = (spans / FRAME_RATE_HZ).T
        return CandidateTable(
            starts_s,
            ends_s,
            scores=over_stretches(np.add, self.power, spans) / self.average,
            rule=np.where(failed.any(axis=0), failed.argmax(axis=0), len(passed)),
            rules=tuple(passed),
        )

    def _passed(self, enter_db: float, shortest_s: float, wide: Stretches, exact: Stretches) -> dict[str, Mask]:
        """Which stretches each rule lets pass; the first that does not is the one that dropped it."""
        entering = CountedFrames(self.strength > max(enter_db, LOWEST_DB))
        enters = entering.around(wide, 0) > 0
        # Of stretches that do not enter: by which rule they are dropped.
        contrast = np.full(len(wide), np.inf)
        contrast[~enters] = over_stretches(np.maximum, self.contrast, wide[~enters])
        over_floor = np.interp(wide[:, 0] / NODE_FRAMES, np.arange(len(self.over_floor)), self.over_floor)
        duration_s = (exact[:, 1] - exact[:, 0]) / FRAME_RATE_HZ
        return {
            WEAK_CONTRAST: enters | (contrast + over_floor > enter_db),
            DROWNED: enters | (contrast > enter_db),
            DULL: enters,
            ISOLATED: entering.around(wide, _frames(BURST_REACH_S)) >= _frames(BURST_S),
            UNEVENTFUL: self._near_action(entering, wide),
            TOO_SHORT: (duration_s > 0) & (duration_s >= shortest_s),
        }

    def _near_action(self, entering: CountedFrames, wide: Stretches) -> Mask:
        """Whether somewhere around a stretch there is enough that enters; a short recording has room for less."""
        shortened = min(1.0, len(self.strength) / _frames(ACTION_WITHIN_S))
        least = max(1, _frames(ACTION_S * shortened))
        starts = entering.crowded(least, _frames(ACTION_WITHIN_S), ACTION_STEP)
        reach = _frames(_window_s(self.adaptive))
        return np.searchsorted(starts, wide[:, 1] + reach) > np.searchsorted(starts, wide[:, 0] - reach)


def entering_db(settings: DetectionSettings) -> float:
    """The documented settings move the strength to enter with; at their defaults it is the tuned one."""
    return ENTER_DB * settings.sensitivity / 2.5 + 20 * math.log10(settings.rms_threshold / 0.10)


def _window_s(adaptive: bool) -> float:
    return SURROUNDINGS_S if adaptive else WHOLE_RECORDING_S


def _frames(duration_s: float) -> int:
    return round(duration_s * FRAME_RATE_HZ)


def _power(level: Frames) -> Frames:
    # A decoder may overshoot full scale twentyfold on clipped sound; a player stops there, and so does this.
    power = np.minimum(level, np.float32(1))
    return np.square(power, out=power)


def _heard(power: Frames) -> Mask:
    """Where there is sound at all; the loudest half per cent may be a fault and does not set the scale."""
    least = 10 ** (SILENCE_DB / 10)
    sampled = power[::PERCENTILE_STEP]
    audible = sampled[sampled > least]
    loudest = float(np.percentile(audible, 99.5)) if len(audible) else 0.0
    return power > max(loudest * 10 ** (-HEARD_RANGE_DB / 10), least)


def _punch(punch: Frames, whole: Frames) -> Frames:
    """In decibels of contrast."""
    blow, all_sound = (_with_neighbours(step_sums(power, PUNCH_STEP)) for power in (punch, whole))
    share_db = decibels(blow / np.maximum(all_sound, 1e-20))
    counted: Frames = (PUNCH_WEIGHT * (share_db - PUNCH_DB)).clip(-MOST_LACK_DB, MOST_GAIN_DB).astype(np.float32)
    return np.repeat(counted, PUNCH_STEP)[: len(punch)]


def _with_neighbours(values: Nodes) -> Nodes:
    """Each value and those beside it, added up."""
    total = values.copy()
    total[1:] += values[:-1]
    total[:-1] += values[1:]
    return total


def _contrast(smooth: Frames, reference: Frames, heard: Mask) -> Frames:
    """As it counts. Written over `smooth`."""
    contrast: Frames = decibels(smooth, out=smooth)
    contrast -= reference
    by_half = contrast + np.float32(CLEAR_DB)
    by_half *= np.float32(0.5)
    np.minimum(contrast, by_half, out=contrast)
    if not heard.all():  # most recordings are heard throughout, and a mask is slow
        contrast[~heard] = LOWEST_DB
    return contrast


def _strength(contrast: Frames, punch: Frames, heard: Mask) -> Frames:
    """Written over `punch`."""
    punch += contrast
    np.maximum(punch, np.float32(LOWEST_DB), out=punch)
    if not heard.all():
        punch[~heard] = LOWEST_DB
    return punch


def decibels(power: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    level: NDArray[Any] = np.maximum(power, power.dtype.type(1e-20), out=out)
    np.log10(level, out=level)
    level *= 10
    return level
