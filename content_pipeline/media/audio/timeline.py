"""Where decoded sound stands on a recording's clock: gaps, overlaps and damage as plain arithmetic on samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from content_pipeline.media.probe import MediaInfo

# Stamps that disagree with the count of samples by less than this are jitter: containers round, some by 1 ms.
JITTER_S = 0.010
ROUNDING_S = 0.001
_STEADY_S = 0.002
_LONGEST_GAP_S = 600.0  # where the recording declares no duration
_PAST_THE_END_S = 10.0


@dataclass(frozen=True)
class Grid:
    """Where the frames of a track stand as long as nothing is missing: `step` samples apart, from `second` on.

    For stamps too coarse to say by themselves at which sample a frame starts.
    """

    second: int
    step: int

    def nearest(self, position: int) -> int:
        return self.second + round((position - self.second) / self.step) * self.step


@dataclass(frozen=True)
class Placement:
    """What comes before a frame: samples of silence, or samples to drop from its start."""

    gap: int = 0
    overlap: int = 0


_IN_PLACE = Placement()


class Timeline:
    """Follows the frames of one track, in samples from the recording's 0:00.

    Frames are put end to end until their stamps disagree by more than jitter, so where a frame stands may depend on
    what came before it. For a part of a track `lag` says by how much its first frame's stamp is ahead of where
    decoding from the very start would put it; with None it is not known, and only steady stamps are certain.
    """

    def __init__(
        self,
        info: MediaInfo,
        rate_hz: int,
        start_s: float = 0.0,
        end_s: float | None = None,
        grid: Grid | None = None,
        lag: int | None = 0,
    ) -> None:
        self.rate_hz = rate_hz
        self._origin_s = info.origin_s
        self._duration_s = info.duration_s
        self._begin = round(start_s * rate_hz)
        self._end = None if end_s is None else round(end_s * rate_hz)
        self._grid = grid
        self._lag = 0 if lag is None else lag
        self._jitter = jitter_samples(rate_hz)
        self._steady = round(_STEADY_S * rate_hz) if lag is None else self._jitter
        self._first: int | None = None
        self._position = self._begin  # of the next sample to be placed
        self._cursor = self._begin  # of the next sample to be handed on
        self._missing = 0
        self.is_certain = True  # whether decoding from the very start would have put the sound at the same samples

    def continues(self, stamp_s: float | None, samples: int) -> bool:
        """Count in a frame that follows the last one without gap or overlap: the quick way for nearly all frames."""
        if self._first is None or self._grid is not None:
            return False
        if stamp_s is not None:
            drift = (stamp_s - self._origin_s) * self.rate_hz - self._position
            if not -self._steady <= drift <= self._steady:
                self.is_certain = self._steady == self._jitter
                return False
        self._position += samples
        return True

    def place(self, stamp_s: float | None, samples: int, is_after_damage: bool) -> Placement:
        """Say what goes before the next frame, and count it in."""
        at = self._on_grid(self._at(stamp_s))
        placement = self._first_placement(at) if self._first is None else self._next_placement(at, samples)
        if is_after_damage:
            self._missing += placement.gap
        self._position += placement.gap + samples - placement.overlap
        return placement

    def wanted(self, samples: int) -> slice:
        """Which of the next `samples` handed on lie between start and end."""
        start = max(0, self._begin - self._cursor)
        stop = samples if self._end is None else max(0, min(samples, self._end - self._cursor))
        self._cursor += samples
        return slice(start, stop)

    @property
    def is_full(self) -> bool:
        return self._end is not None and self._position >= self._end

    @property
    def start_s(self) -> float:
        return 0.0 if self._first is None else self._first / self.rate_hz

    @property
    def end_s(self) -> float:
        return self._position / self.rate_hz

    @property
    def missing_s(self) -> float:
        return self._missing / self.rate_hz

    def _at(self, stamp_s: float | None) -> int:
        """The position a stamp means; a stamp that cannot be right means "here"."""
        if stamp_s is None:
            return self._position
        at_s = stamp_s - self._origin_s
        here_s = self._position / self.rate_hz
        limit_s = self._duration_s + _PAST_THE_END_S if self._duration_s > 0 else here_s + _LONGEST_GAP_S
        return round(at_s * self.rate_hz) if at_s <= limit_s else self._position

    def _on_grid(self, at: int) -> int:
        if self._grid is None:
            return at
        place = self._grid.nearest(at)
        if abs(place - at) <= ROUNDING_S * self.rate_hz:
            return place
        self.is_certain = False
        return at

    def _first_placement(self, at: int) -> Placement:
        at -= self._lag
        self._first = max(at, 0)
        if at > self._begin:
            return Placement(gap=at - self._begin)
        self._position = self._cursor = at
        return _IN_PLACE

    def _next_placement(self, at: int, samples: int) -> Placement:
        drift = at - self._position
        if drift > self._jitter:
            return Placement(gap=drift)
        if drift < -self._jitter:
            return Placement(overlap=min(samples, -drift))
        return _IN_PLACE


def jitter_samples(rate_hz: int) -> int:
    return round(JITTER_S * rate_hz)


def lag_after(spacings: Iterable[tuple[int, int]], frame_samples: int, rate_hz: int) -> int:
    """How far stamps are ahead of frames put end to end, after `spacings`: (how many frames, how far apart).

    The same rule as a `Timeline` follows, without looking at each frame: beyond jitter the stamp is right.
    """
    jitter, lag = jitter_samples(rate_hz), 0
    for count, step in spacings:
        change = step - frame_samples
        if change == 0:
            continue
        room = jitter - lag if change > 0 else jitter + lag
        frames_to_reset = room // abs(change) + 1
        if count < frames_to_reset:
            lag += count * change
        else:
            lag = (count - frames_to_reset) % (jitter // abs(change) + 1) * change
    return lag
