"""Windows of one length in a long highlight: which holds the most energy, and which then. Pure.

Made to be asked often: what every window holds is summed once, whatever part of the recording is looked into.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.spans import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    EnergyCurve = NDArray[np.floating[Any]]

# Spans are sums of floats: two windows of 10 s must fit a budget of 20 s.
ROUNDING_S = 1e-6
SHORTEST_S = 1 / FRAME_RATE_HZ  # no clip is shorter than a frame of the curves
# So are energies, and they differ in their last digits: equal means equal to a billionth.
_EQUAL = 1 - 1e-9
_BLOCK = 512


def energy_until(energy: EnergyCurve) -> NDArray[np.float64]:
    """The energy before each frame, and before the end: any window's energy is one subtraction."""
    until = np.empty(len(energy) + 1)
    until[0] = 0.0
    np.cumsum(energy, dtype=np.float64, out=until[1:])
    return until


@dataclass(frozen=True, eq=False)
class Windows:
    """All windows that last `limit_s`; those that are taken lie `gap_s` apart."""

    until: NDArray[np.float64]  # as `energy_until` gives it
    limit_s: float
    gap_s: float = 0.0
    _known: dict[Span, Span] = field(default_factory=dict, init=False)

    def richest(self, span: Span) -> Span:
        """The window in a longer span that holds the most energy; of equal ones, the earliest."""
        if span not in self._known:  # a stretch of action is often the same under the next threshold
            self._known[span] = self._richest(span)
        return self._known[span]

    def _richest(self, span: Span) -> Span:
        last_start_s = span.end_s - self.limit_s
        first, end = math.ceil(span.start_s * FRAME_RATE_HZ), math.floor(last_start_s * FRAME_RATE_HZ) + 1
        at_start, at_end = (self._energy_from(start_s) for start_s in (span.start_s, last_start_s))
        least = max(at_start, at_end, self._held.largest(first, end)) * _EQUAL
        if at_start >= least:
            start_s = span.start_s
        else:
            frame = self._held.first_with(least, first, end)
            start_s = last_start_s if frame is None else frame / FRAME_RATE_HZ
        return Span(start_s, min(start_s + self.limit_s, span.end_s))

    def pieces(self, span: Span, events: EventTimes, most: int) -> list[Span]:
        """The best piece of a long span, then the best of what is left on both sides, and so on; in order of time."""
        rests: list[tuple[float, Span, Span]] = []  # the energy of the best piece, the piece, where it was found

        def offer(rest: Span) -> None:
            piece = self.best_piece(rest, events)
            if piece is not None:
                heapq.heappush(rests, (-self.energy_of(piece), piece, rest))

        offer(span)
        taken: list[Span] = []
        while rests and len(taken) < most:
            _, piece, rest = heapq.heappop(rests)
            taken.append(piece)
            for beside in self.beside(piece, rest):
                offer(beside)
        return sorted(taken)

    def best_piece(self, rest: Span, events: EventTimes) -> Span | None:
        """The richest window, if one fits; of a shorter rest what belongs to its events, if it holds any."""
        return self.richest(rest) if self._has_room_in(rest) else events.about(rest)

    def beside(self, piece: Span, rest: Span) -> tuple[Span, ...]:
        """What a piece leaves of the span it was taken from: of a span shorter than a window, nothing."""
        if not self._has_room_in(rest):
            return ()
        return Span(rest.start_s, piece.start_s - self.gap_s), Span(piece.end_s + self.gap_s, rest.end_s)

    def _has_room_in(self, rest: Span) -> bool:
        return rest.duration_s >= self.limit_s - ROUNDING_S

    def energy_of(self, span: Span) -> float:
        return self._before(span.end_s) - self._before(span.start_s)

    def _energy_from(self, start_s: float) -> float:
        return self._before(start_s + self.limit_s) - self._before(start_s)

    def _before(self, time_s: float) -> float:
        """The energy before a moment, which may lie between frames."""
        last = len(self.until) - 1
        position = min(max(time_s * FRAME_RATE_HZ, 0.0), last)
        frame = int(position)
        here = self.until.item(frame)
        return here + (position - frame) * (self.until.item(min(frame + 1, last)) - here)

    @cached_property
    def _held(self) -> _Values:
        """The energy of the window that starts at each frame; beyond the end there is none."""
        frames = self.limit_s * FRAME_RATE_HZ
        whole, count = min(int(frames), len(self.until)), len(self.until)
        ahead = np.full(count + 1, self.until[-1])
        ahead[: count - whole] = self.until[whole:]
        held = np.diff(ahead)
        held *= frames - int(frames)
        held += ahead[:-1]
        held -= self.until
        return _Values(held)


@dataclass(frozen=True, eq=False)
class EventTimes:
    """When the events of a highlight are, how much is shown before and after them, and how little of one counts."""

    starts_s: NDArray[np.float64]
    ends_s: NDArray[np.float64]
    before_s: float
    after_s: float
    least_s: float

    def only(self, which: slice) -> EventTimes:
        return replace(self, starts_s=self.starts_s[which], ends_s=self.ends_s[which])

    def about(self, rest: Span) -> Span | None:
        """The part of a rest that belongs to the events in it; None where there is too little of them."""
        inside_s = np.minimum(self.ends_s, rest.end_s) - np.maximum(self.starts_s, rest.start_s)
        is_inside = inside_s > 0
        if not is_inside.any() or inside_s[is_inside].sum() < self.least_s - ROUNDING_S:
            return None
        first_s, last_s = float(self.starts_s[is_inside].min()), float(self.ends_s[is_inside].max())
        part = Span(max(rest.start_s, first_s - self.before_s), min(rest.end_s, last_s + self.after_s))
        return part if part.duration_s >= SHORTEST_S - ROUNDING_S else None


class _Values:
    """Values of which a stretch is asked for its largest, again and again: most of it is known by the block."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._values = values
        self._of_blocks = np.maximum.reduceat(values, np.arange(0, len(values), _BLOCK))

    def largest(self, first: int, end: int) -> float:
        """Of `[first, end)`; nothing is less than 0."""
        head, blocks, tail = self._pieces(first, end)
        pieces = self._values[head], self._of_blocks[blocks], self._values[tail]
        return max(float(piece.max(initial=0.0)) for piece in pieces)

    def first_with(self, least: float, first: int, end: int) -> int | None:
        """The first of `[first, end)` whose value is no less."""
        head, blocks, tail = self._pieces(first, end)
        whole = _first(self._of_blocks, blocks, least)
        inside = [] if whole is None else [slice(whole * _BLOCK, (whole + 1) * _BLOCK)]
        places = (_first(self._values, piece, least) for piece in (head, *inside, tail))
        return next((place for place in places if place is not None), None)

    def _pieces(self, first: int, end: int) -> tuple[slice, slice, slice]:
        """The frames before the first whole block, the whole blocks, and the frames after them."""
        end = min(end, len(self._values))
        first_block, end_block = -(-first // _BLOCK), end // _BLOCK
        if first_block >= end_block:
            return slice(first, end), slice(0), slice(0)
        return slice(first, first_block * _BLOCK), slice(first_block, end_block), slice(end_block * _BLOCK, end)


def _first(values: NDArray[np.float64], where: slice, least: float) -> int | None:
    enough = values[where] >= least
    place = int(enough.argmax()) if len(enough) else 0
    return where.start + place if len(enough) and enough[place] else None
