"""One recording tried with many thresholds: what each would pick, exactly as `plan_highlights` would keep it. Pure.

Made to be asked often. The evidence is taken once, the energy of every window is summed once, and for each
threshold only as many windows are looked for as a montage shows: a table over a thousand hours takes seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves.model import Curves
from content_pipeline.media.detection.detector import CandidateTable, Evidence, detector_for
from content_pipeline.media.selection.highlights import (
    DURATION_LIMIT,
    SEGMENT_LIMIT,
    MontageRules,
    plan_highlights,
)
from content_pipeline.media.selection.tuning import Picked
from content_pipeline.media.selection.windows import ROUNDING_S, SHORTEST_S, EventTimes, Windows
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings, OutputSettings, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A highlight is the same as one of before when more than this share of the longer of the two is common to both.
SAME_SHARE = 0.5


@dataclass(frozen=True)
class ActionMoment:
    """A stretch of action, however long, before a montage shows it or pieces of it; and which events it holds."""

    span: Span
    score: float
    first_event: int
    end_event: int


@dataclass(frozen=True)
class Selected:
    """The highlights that a montage would show, in order of time, and whether its limits left others out."""

    moments: int
    shown: tuple[Span, ...]
    limited: bool


class Trial:
    """`settings` give everything but the threshold that is tried."""

    def __init__(self, curves: Curves, duration_s: float, settings: Settings) -> None:
        self._settings = settings
        self._duration_s = duration_s
        self._evidence: Evidence = detector_for(settings.detection).evidence(curves)
        self._energy = np.square(curves.broadband, dtype=np.float64)
        self._windows = MontageRules.of_settings(settings).windows(self._energy)

    def select(self, detection: DetectionSettings) -> Selected:
        """What a montage would show under these settings."""
        return self.select_from(self._evidence.decide(detection).candidate_table, detection)

    def select_from(self, candidates: CandidateTable, detection: DetectionSettings) -> Selected:
        output = self._settings.output
        rules = MontageRules.of(detection, self._settings.processing, output)
        moments, events = self._moments(candidates, rules)
        if output.select == "best" or output.order != "chronological":
            best_first = _BestFirst(self._windows, output, events)
            return Selected(len(moments), tuple(sorted(best_first.best_of(moments))), best_first.limited)
        # What opens the montage is shown whatever its score: every window has to be known.
        plan = plan_highlights(candidates.listed(), self._energy, self._duration_s, rules)
        limited = any(highlight.dropped_by in (DURATION_LIMIT, SEGMENT_LIMIT) for highlight in plan.dropped)
        limited = limited or len(plan.kept) == output.max_segments  # of a long moment no more windows are looked for
        return Selected(len(moments), tuple(sorted(highlight.span for highlight in plan.kept)), limited)

    def _moments(self, candidates: CandidateTable, rules: MontageRules) -> tuple[list[ActionMoment], EventTimes]:
        """Events widened, clamped and merged: what `plan_highlights` does, on whole columns."""
        end_s = max(0.0, self._duration_s)
        starts_s = (candidates.starts_s - rules.lookback_s - rules.padding_s).clip(0.0, end_s)
        ends_s = (candidates.ends_s + rules.padding_s).clip(0.0, end_s)
        is_kept = candidates.is_event & (ends_s - starts_s >= SHORTEST_S - ROUNDING_S)
        starts_s, ends_s, scores = starts_s[is_kept], ends_s[is_kept], candidates.scores[is_kept]
        events = rules.times_of(candidates.starts_s[is_kept], candidates.ends_s[is_kept])
        if not len(starts_s):
            return [], events
        reached_s = np.maximum.accumulate(ends_s)
        first = np.flatnonzero(np.append(True, starts_s[1:] - reached_s[:-1] > rules.merge_gap_s))
        end = np.append(first[1:], len(starts_s))
        columns = starts_s[first], reached_s[end - 1], np.add.reduceat(scores, first)
        spans = map(Span, _listed(columns[0]), _listed(columns[1]))
        return list(map(ActionMoment, spans, _listed(columns[2]), first.tolist(), end.tolist())), events


def _listed(column: NDArray[np.float64]) -> list[float]:
    values: list[float] = column.tolist()
    return values


@dataclass
class _BestFirst:
    """The best highlights that fit, best first. A long moment is looked into only when its score makes it the next.

    No piece of a moment scores more than the whole, and none that is left more than one that was taken.
    """

    windows: Windows
    output: OutputSettings
    events: EventTimes
    limited: bool = False
    _next: list[tuple[float, int, Span, int]] = field(default_factory=list)
    _inside: dict[int, tuple[ActionMoment, Span]] = field(default_factory=dict)  # where a piece was found
    _closed: set[Span] = field(default_factory=set)  # those of which a piece had no room
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def best_of(self, moments: Iterable[ActionMoment]) -> list[Span]:
        long_s = self.windows.limit_s + ROUNDING_S
        for moment in moments:
            self._push(moment.score, moment.span, None if moment.span.duration_s <= long_s else (moment, moment.span))
        kept: list[Span] = []
        left_s = self.output.max_duration_s + ROUNDING_S
        while self._next and len(kept) < self.output.max_segments and left_s >= SHORTEST_S - ROUNDING_S:
            _, is_known, span, number = heapq.heappop(self._next)
            inside = self._inside.get(number)
            length_s = span.duration_s if is_known else self.windows.limit_s
            if length_s > left_s or (inside is not None and inside[0].span in self._closed):
                self.limited = True
                if inside is not None:
                    self._closed.add(inside[0].span)
            elif inside is not None and not is_known:
                self._offer(*inside)
            else:
                kept.append(span)
                left_s -= span.duration_s
                if inside is not None:
                    for beside in self.windows.beside(span, inside[1]):
                        self._offer(inside[0], beside)
        self.limited = self.limited or bool(self._next)
        return kept

    def _offer(self, moment: ActionMoment, rest: Span) -> None:
        """The best piece of what is left of a moment, with its share of the moment's score."""
        piece = self.windows.best_piece(rest, self.events.only(slice(moment.first_event, moment.end_event)))
        if piece is None or piece.duration_s < SHORTEST_S - ROUNDING_S:
            return
        whole = self.windows.energy_of(moment.span)
        share = self.windows.energy_of(piece) / whole if whole > 0 else piece.duration_s / moment.span.duration_s
        self._push(moment.score * share, piece, (moment, rest), is_known=True)

    def _push(self, score: float, span: Span, inside: tuple[ActionMoment, Span] | None, is_known: bool = False) -> None:
        """What might be better comes before what is known to be as good; equals come in order of time."""
        number = next(self._numbers)
        if inside is not None:
            self._inside[number] = inside
        heapq.heappush(self._next, (-score, int(is_known or inside is None), span, number))


def compared(now: Selected, then: Selected) -> Picked:
    """What a threshold picks, and how that differs from what is picked now."""
    same = common(now.shown, then.shown)
    return Picked(
        moments=then.moments,
        clips=len(then.shown),
        seconds=sum(span.duration_s for span in then.shown),
        limited=int(then.limited),
        came=len(then.shown) - same,
        went=len(now.shown) - same,
    )


def common(before: Sequence[Span], after: Sequence[Span]) -> int:
    """How many highlights, of two lists in order of time, are the same; each has at most one that it can be."""
    same, first = 0, 0
    for span in after:
        while first < len(before) and before[first].end_s <= span.start_s:
            first += 1
        for other in before[first:]:
            if other.start_s >= span.end_s:
                break
            if span.overlap_s(other) > SAME_SHARE * max(span.duration_s, other.duration_s):
                same += 1
                break
    return same
