"""From events to the highlights of a montage: widen, merge, trim, choose, order. Pure; nothing is read or cut here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Candidate
from content_pipeline.media.selection.windows import ROUNDING_S, SHORTEST_S, EventTimes, Windows, energy_until
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings, OutputSettings, ProcessingSettings, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from content_pipeline.media.selection.windows import EnergyCurve

TOO_SHORT = "too short"
SEGMENT_LIMIT = "segment limit"
DURATION_LIMIT = "duration limit"
NOT_LOUDEST = "not among the loudest windows"

# Two windows of one long highlight lie at least this far apart: without a jump they would be one long clip.
SHORTEST_JUMP_S = 1.0

Order = Literal["chronological", "score", "hybrid"]


@dataclass(frozen=True)
class MontageRules:
    """What the settings say about making a montage of events."""

    lookback_s: float
    padding_s: float
    merge_gap_s: float
    longest_s: float
    least_event_s: float
    output: OutputSettings

    @classmethod
    def of(cls, detection: DetectionSettings, processing: ProcessingSettings, output: OutputSettings) -> MontageRules:
        return cls(
            lookback_s=detection.event_lookback_s,
            padding_s=processing.context_padding_s,
            merge_gap_s=processing.merge_gap_s,
            longest_s=min(processing.max_segment_duration_s, output.max_duration_s),
            least_event_s=detection.min_event_duration_s,
            output=output,
        )

    @classmethod
    def of_settings(cls, settings: Settings) -> MontageRules:
        return cls.of(settings.detection, settings.processing, settings.output)

    def windows(self, energy: EnergyCurve) -> Windows:
        return Windows(energy_until(energy), self.longest_s, max(self.merge_gap_s, SHORTEST_JUMP_S))

    def times_of(self, starts_s: NDArray[np.float64], ends_s: NDArray[np.float64]) -> EventTimes:
        return EventTimes(starts_s, ends_s, self.lookback_s + self.padding_s, self.padding_s, self.least_event_s)


@dataclass(frozen=True)
class Highlight:
    """A span for the montage, and the events that it shows. Its score is the sum over them: two fights are worth both.

    A piece of a highlight that is too long for a clip has the share of its score that it has of its energy, and
    says of which span it is `part_of`. `peak_s` is when its strongest event is loudest: the moment to show of it.
    """

    span: Span
    score: float
    events: tuple[Candidate, ...] = ()
    part_of: Span | None = None
    dropped_by: str | None = None
    peak_s: float | None = None


@dataclass(frozen=True)
class Plan:
    """`kept` in the order of the montage; `dropped` in order of time, each with the rule that dropped it."""

    kept: tuple[Highlight, ...]
    dropped: tuple[Highlight, ...]

    def explain(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """The candidates, where events that no clip shows say by which rule they were left out."""
        shown = {event for highlight in self.kept for event in highlight.events}
        rules = {event: highlight.dropped_by for highlight in self.dropped for event in highlight.events}

        def explained(candidate: Candidate) -> Candidate:
            if candidate.dropped_by is not None or candidate in shown:
                return candidate
            return replace(candidate, dropped_by=rules[candidate])

        return [explained(candidate) for candidate in candidates]


def plan_highlights(events: Sequence[Candidate], energy: EnergyCurve, duration_s: float, rules: MontageRules) -> Plan:
    """Plan the montage of one video; `energy` (one value per frame) decides which part of a long highlight stays."""
    highlights = _by_time(Highlight(event.span, event.score, (event,)) for event in events if event.dropped_by is None)
    highlights = with_lookback(highlights, rules.lookback_s)
    highlights = with_padding(highlights, rules.padding_s)
    highlights = clamped(highlights, duration_s)
    highlights, outside = without_short(highlights)
    highlights = merged(highlights, rules.merge_gap_s)
    pieces, unshown = trimmed(highlights, energy, rules)
    pieces, slivers = without_short(pieces)
    kept, dropped = choose([with_peak(piece, energy) for piece in pieces], rules.output)
    return Plan(tuple(kept), tuple(_by_time([*outside, *unshown, *slivers, *dropped])))


def with_lookback(highlights: Iterable[Highlight], lookback_s: float) -> list[Highlight]:
    """Start earlier, by what leads up to an event."""
    return [_moved(highlight, highlight.span.start_s - lookback_s, highlight.span.end_s) for highlight in highlights]


def with_padding(highlights: Iterable[Highlight], padding_s: float) -> list[Highlight]:
    """Room on both sides."""
    return [
        _moved(highlight, highlight.span.start_s - padding_s, highlight.span.end_s + padding_s)
        for highlight in highlights
    ]


def clamped(highlights: Iterable[Highlight], duration_s: float) -> list[Highlight]:
    """Inside the video; what lies wholly outside becomes empty."""
    end_s = max(0.0, duration_s)
    return [
        _moved(highlight, min(max(highlight.span.start_s, 0.0), end_s), min(max(highlight.span.end_s, 0.0), end_s))
        for highlight in highlights
    ]


def without_short(highlights: Iterable[Highlight]) -> tuple[list[Highlight], list[Highlight]]:
    """Those that last at least a frame, and those that do not."""
    long: list[Highlight] = []
    short: list[Highlight] = []
    for highlight in highlights:
        if highlight.span.duration_s < SHORTEST_S - ROUNDING_S:
            short.append(replace(highlight, dropped_by=TOO_SHORT))
        else:
            long.append(highlight)
    return long, short


def merged(highlights: Iterable[Highlight], gap_s: float) -> list[Highlight]:
    """Neighbours at most `gap_s` apart become one, which holds the events and the score of all."""
    groups: list[list[Highlight]] = []
    reached_s = -math.inf
    for highlight in _by_time(highlights):
        if highlight.span.start_s - reached_s > gap_s:
            groups.append([])
            reached_s = highlight.span.end_s
        groups[-1].append(highlight)
        reached_s = max(reached_s, highlight.span.end_s)
    return [_joined(group) for group in groups]


def trimmed(
    highlights: Iterable[Highlight], energy: EnergyCurve, rules: MontageRules
) -> tuple[list[Highlight], list[Highlight]]:
    """Of each highlight that is too long for a clip, the windows that hold the most energy; and the events left over.

    One hour of fighting is more than its best ten seconds: as long as a window fits into what is left, or a shorter
    rest holds an event, it is a highlight too, as many as a montage may have.
    """
    windows = rules.windows(energy)
    result: list[Highlight] = []
    unshown: list[Highlight] = []
    for highlight in highlights:
        if highlight.span.duration_s <= rules.longest_s + ROUNDING_S:
            result.append(highlight)
            continue
        starts_s, ends_s = np.array([(event.span.start_s, event.span.end_s) for event in highlight.events]).T
        spans = windows.pieces(highlight.span, rules.times_of(starts_s, ends_s), rules.output.max_segments)
        pieces = [_piece(highlight, span, windows, rules.least_event_s) for span in spans]
        result += pieces
        unshown += _events_left_over(highlight, pieces)
    return result, unshown


def with_peak(highlight: Highlight, energy: EnergyCurve) -> Highlight:
    """With the moment at which its strongest event is loudest, as far as the highlight shows it."""
    strongest = max(highlight.events, key=lambda event: event.score, default=None)
    shown = highlight.span if strongest is None else highlight.span.common(strongest.span)
    first, end = (round(edge_s * FRAME_RATE_HZ) for edge_s in (shown.start_s, shown.end_s))
    loudness = energy[first:end]
    peak_s = (first + int(loudness.argmax())) / FRAME_RATE_HZ if len(loudness) else shown.start_s
    return replace(highlight, peak_s=min(max(peak_s, highlight.span.start_s), highlight.span.end_s))


def choose(highlights: Iterable[Highlight], output: OutputSettings) -> tuple[list[Highlight], list[Highlight]]:
    """What fits the budget, in montage order, and what does not.

    `best` offers the budget to the highest scores first, `first` to the opening of the montage.
    """
    walk = in_order(highlights, "score" if output.select == "best" else output.order)
    kept, dropped = within_budget(walk, output.max_segments, output.max_duration_s)
    return in_order(kept, output.order) if output.select == "best" else kept, dropped


def within_budget(
    walk: Iterable[Highlight], max_segments: int, max_duration_s: float
) -> tuple[list[Highlight], list[Highlight]]:
    """Greedy: stop at the segment limit, pass over what would overflow the duration.

    Where a loud window of a long highlight has no room, its quieter rests are not shown instead.
    """
    kept: list[Highlight] = []
    dropped: list[Highlight] = []
    closed: set[Span] = set()
    left_s = max_duration_s + ROUNDING_S
    for highlight in walk:
        if len(kept) >= max_segments:
            dropped.append(replace(highlight, dropped_by=SEGMENT_LIMIT))
        elif highlight.span.duration_s > left_s or highlight.part_of in closed:
            dropped.append(replace(highlight, dropped_by=DURATION_LIMIT))
            if highlight.part_of is not None:
                closed.add(highlight.part_of)
        else:
            kept.append(highlight)
            left_s -= highlight.span.duration_s
    return kept, dropped


def in_order(highlights: Iterable[Highlight], order: Order) -> list[Highlight]:
    """Sorted for the montage of one video, where `hybrid` has nothing to alternate between and is `score`."""
    by_order: dict[Order, Callable[[Highlight], tuple[float, Span] | Span]] = {
        "chronological": lambda highlight: highlight.span,
        "score": lambda highlight: (-highlight.score, highlight.span),
        "hybrid": lambda highlight: (-highlight.score, highlight.span),
    }
    return sorted(highlights, key=by_order[order])


def _piece(highlight: Highlight, span: Span, windows: Windows, least_event_s: float) -> Highlight:
    whole = windows.energy_of(highlight.span)
    share = windows.energy_of(span) / whole if whole > 0 else span.duration_s / highlight.span.duration_s
    events = tuple(event for event in highlight.events if _shows(span, event.span, least_event_s))
    return Highlight(span, highlight.score * share, events, part_of=highlight.span)


def _shows(span: Span, event: Span, least_event_s: float) -> bool:
    """Whether enough of an event to be one, or all of it, lies in a span."""
    return span.overlap_s(event) > max(0.0, min(event.duration_s, least_event_s) - ROUNDING_S)


def _events_left_over(highlight: Highlight, pieces: Iterable[Highlight]) -> list[Highlight]:
    shown = {event for piece in pieces for event in piece.events}
    return [
        Highlight(highlight.span.common(event.span), event.score, (event,), highlight.span, NOT_LOUDEST)
        for event in highlight.events
        if event not in shown
    ]


def _joined(group: Sequence[Highlight]) -> Highlight:
    span = Span(group[0].span.start_s, max(highlight.span.end_s for highlight in group))
    events = tuple(event for highlight in group for event in highlight.events)
    return Highlight(span, sum(highlight.score for highlight in group), events)


def _moved(highlight: Highlight, start_s: float, end_s: float) -> Highlight:
    return replace(highlight, span=Span(start_s, end_s))


def _by_time(highlights: Iterable[Highlight]) -> list[Highlight]:
    return sorted(highlights, key=lambda highlight: (highlight.span, -highlight.score))
