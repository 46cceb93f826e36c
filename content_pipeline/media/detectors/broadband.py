"""The default detector: loud across the whole spectrum at once, against what the recording sounds like around it.

Shots, explosions and crowds are noise; music and speech are tones. The broadband curve holds the noise,
so an event is a stretch of that curve which stands out from its surroundings twice over: above its own
floor, and not far under the loudness of everything. Everything is a ratio: the same recording made 24 dB
quieter has the same events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from content_pipeline.media.curves import FRAME_RATE_HZ, Curves
from content_pipeline.media.detector import Candidates, Detection, check_same_kind
from content_pipeline.media.detectors.runs import Counted, narrowed, over_runs, runs
from content_pipeline.media.detectors.surroundings import (
    NODE_FRAMES,
    PERCENTILE_STEP,
    between_nodes,
    moving_mean,
    rolling_mean,
    rolling_percentile,
)
from content_pipeline.media.memory import keep_freed_memory
from content_pipeline.settings import DetectionSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from content_pipeline.media.detectors.runs import Runs
    from content_pipeline.media.detectors.surroundings import Frames, Mask, Nodes

# The broadband curve is on the scale of RMS: of white noise it reads the same.
ENTER_DB = 5.0
LEAVE_BELOW_ENTER_DB = 2.5
# So an event enters 1.25 dB under the loudness around it: the noise alone is nearly as loud as all sound on average.
LOUDNESS_ALLOWANCE_DB = 6.25
# Share of the power that must be noise where an event enters: 1 for white noise, less than this for music.
NOISE_SHARE = 0.5
FLOOR_PERCENT = 10.0
SURROUNDINGS_S = 90.0
WHOLE_RECORDING_S = 1e9
# A fight is more than one bang: this much time of entering sound, within this reach of the event.
BURST_S = 0.2
BURST_REACH_S = 2.0
# A walk has its doors, of up to a second and a half each; a fight goes on: so much entering sound in so much time.
ACTION_S = 1.75
ACTION_WITHIN_S = 10.0
# Or less of what stands out by this much more than it has to, which no door does where there is anything else to hear.
STRIKING_S = 0.9
STRIKING_DB = 8.0
# About 0.3 s: longer than the gaps inside a burst, shorter than those between bursts.
SMOOTHING_FRAMES = 13
# Below this there is nothing to hear: absolutely (under 16 bits), and beside the recording's loudest.
SILENCE_DB = -100.0
HEARD_RANGE_DB = 60.0

# What is not heard has this contrast; nothing that stands out has as little.
LOWEST_DB = -20.0

WEAK_CONTRAST = "weak contrast"
DROWNED = "drowned by louder sound"
TONAL = "tonal"
ISOLATED = "isolated"
UNEVENTFUL = "uneventful stretch"
TOO_SHORT = "too short"


@dataclass(frozen=True, eq=False)
class BroadbandEvidence:
    """An event is a run of frames above the leaving contrast with, somewhere in it, a frame above the entering
    contrast that is mostly noise, and enough of such frames around it. Both contrasts move together with the
    settings and every rule asks for more of the same, so that a higher threshold never finds more time.

    The score is the broadband energy of the event in seconds of the recording's average: 12 means "as much
    as twelve ordinary seconds". It does not depend on the level of the recording.

    `contrast` is in decibels over floor and loudness both, `sharp` the same without smoothing.
    """

    contrast: Frames  # at its lowest where nothing is heard
    sharp: Frames
    is_noise: Mask
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
            return cls(lowest, lowest, heard, np.zeros(1), power, 1.0, adaptive)
        is_noise = heard & _is_noise(smooth, whole)
        floor = decibels(rolling_percentile(smooth, heard, _window_s(adaptive), FLOOR_PERCENT))
        loudness = decibels(rolling_mean(whole, heard, _window_s(adaptive)))
        nodes = np.maximum(floor, loudness - LOUDNESS_ALLOWANCE_DB)
        reference = between_nodes(nodes, len(power))
        # Each array of an hour is half a megabyte that the system has to find: what is done with is written over.
        return cls(
            contrast=_contrast(smooth, reference, heard),
            sharp=np.subtract(decibels(power, out=whole), reference, out=whole),
            is_noise=is_noise,
            over_floor=nodes - floor,
            power=power,
            average=float(power.sum(dtype=np.float64)) / np.count_nonzero(heard) * FRAME_RATE_HZ,
            adaptive=adaptive,
        )

    def decide(self, settings: DetectionSettings) -> Detection:
        check_same_kind(settings, "broadband", self.adaptive)
        enter_db = entering_contrast_db(settings)
        return Detection(
            found=self._found(enter_db, settings.min_event_duration_s),
            level=self.contrast,
            threshold=np.broadcast_to(np.float32(enter_db), self.contrast.shape),
            unit="dB",
        )

    def _found(self, enter_db: float, shortest_s: float) -> Candidates:
        leave_db = max(enter_db - LEAVE_BELOW_ENTER_DB, LOWEST_DB)
        wide = runs(self.contrast > leave_db)
        # Smoothing spreads a shot over its neighbours; the unsmoothed curve says where it starts and ends.
        exact = narrowed(wide, self.sharp > leave_db)
        passed = self._passed(enter_db, shortest_s, wide, exact)
        failed = ~np.array([*passed.values()])
        spans = np.where((exact[:, 0] < exact[:, 1])[:, None], exact, wide)
        starts_s, ends_s = (spans / FRAME_RATE_HZ).T
        return Candidates(
            starts_s,
            ends_s,
            scores=over_runs(np.add, self.power, spans) / self.average,
            rule=np.where(failed.any(axis=0), failed.argmax(axis=0), len(passed)),
            rules=tuple(passed),
        )

    def _passed(self, enter_db: float, shortest_s: float, wide: Runs, exact: Runs) -> dict[str, Mask]:
        """Which runs each rule lets pass; the first that does not is the one that dropped it."""
        entering = Counted(self.is_noise & (self.contrast > enter_db))
        peak = over_runs(np.maximum, self.contrast, wide)
        over_floor = np.interp(wide[:, 0] / NODE_FRAMES, np.arange(len(self.over_floor)), self.over_floor)
        duration_s = (exact[:, 1] - exact[:, 0]) / FRAME_RATE_HZ
        return {
            WEAK_CONTRAST: peak + over_floor > enter_db,
            DROWNED: peak > enter_db,
            TONAL: entering.around(wide, 0) > 0,
            ISOLATED: entering.around(wide, _frames(BURST_REACH_S)) >= _frames(BURST_S),
            UNEVENTFUL: self._eventful(entering, enter_db, wide),
            TOO_SHORT: (duration_s > 0) & (duration_s >= shortest_s),
        }

    def _eventful(self, entering: Counted, enter_db: float, wide: Runs) -> Mask:
        """Whether there is action around a run, long or striking."""
        near = self._near_action(entering, ACTION_S, wide)
        if near.all():
            return near
        striking = Counted(self.is_noise & (self.contrast > enter_db + STRIKING_DB))
        return near | self._near_action(striking, STRIKING_S, wide)

    def _near_action(self, frames: Counted, least_s: float, wide: Runs) -> Mask:
        """Whether somewhere around a run there is enough of the frames; a short recording has room for less."""
        shortened = min(1.0, len(self.contrast) / _frames(ACTION_WITHIN_S))
        action = frames.crowded(max(1, _frames(least_s * shortened)), _frames(ACTION_WITHIN_S))
        return action.around(wide, _frames(_window_s(self.adaptive))) > 0


def entering_contrast_db(settings: DetectionSettings) -> float:
    """The documented settings move the contrast; at their defaults it is the tuned one."""
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


def _is_noise(smooth: Frames, whole: Frames) -> Mask:
    share = moving_mean(whole, SMOOTHING_FRAMES)
    share *= np.float32(NOISE_SHARE)
    return smooth > share


def _contrast(smooth: Frames, reference: Frames, heard: Mask) -> Frames:
    """Written over `smooth`."""
    contrast = decibels(smooth, out=smooth)
    contrast -= reference
    np.putmask(contrast, ~heard, LOWEST_DB)
    np.maximum(contrast, np.float32(LOWEST_DB), out=contrast)
    return contrast


def decibels(power: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    level: NDArray[Any] = np.maximum(power, power.dtype.type(1e-20), out=out)
    np.log10(level, out=level)
    level *= 10
    return level
