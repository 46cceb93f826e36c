"""From events to the highlights of a montage: widen, merge, trim, choose, order. Pure; nothing is read or cut here.

Only the choosing looks across videos, so it works on `(path, highlight)` pairs: a montage of one
recording and a best-of over many follow the same rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Candidate
from content_pipeline.media.selection.windows import ROUNDING_S, Windows, energy_until
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings, OutputSettings, ProcessingSettings

if TYPE_CHECKING:
    from content_pipeline.media.selection.windows import EnergyCurve

TOO_SHORT = "too short"
SEGMENT_LIMIT = "segment limit"
DURATION_LIMIT = "duration limit"

# Two windows of one long highlight lie at least this far apart: without a jump they would be one long clip.
SHORTEST_JUMP_S = 1.0
SHORTEST_S = 1 / FRAME_RATE_HZ

Order = Literal["chronological", "score", "hybrid"]


@dataclass(frozen=True)
class Highlight:
    """A span for the montage. Its score is the sum over the events in it: two fights are worth both.

    Where only a part is shown, it is that part's share of the energy.
    """

    span: Span
    score: float
    events: int = 1
    dropped_by: str | None = None


Placed = tuple[str, Highlight]  # the path of the video, and a highlight of it


@dataclass(frozen=True)
class Choice:
    """`kept` in montage order; `dropped` in order of time, each with the rule that dropped it."""

    kept: tuple[Placed, ...]
    dropped: tuple[Placed, ...]


@dataclass(frozen=True)
class Plan:
    """The same for one video, where the path says nothing."""

    kept: tuple[Highlight, ...]
    dropped: tuple[Highlight, ...]

    @property
    def duration_s(self) -> float:
        return sum(highlight.span.duration_s for highlight in self.kept)


def plan_highlights(
    events: Sequence[Candidate],
    energy: EnergyCurve,
    duration_s: float,
    detection: DetectionSettings,
    processing: ProcessingSettings,
    output: OutputSettings,
) -> Plan:
    """Plan the montage of one video; `energy` (one value per frame) decides which part of a long highlight stays."""
    highlights = _by_time(Highlight(event.span, event.score) for event in events if event.dropped_by is None)
    highlights = with_lookback(highlights, detection.event_lookback_s)
    highlights = with_padding(highlights, processing.context_padding_s)
    highlights = clamped(highlights, duration_s)
    highlights, outside = without_short(highlights)
    highlights = merged(highlights, processing.merge_gap_s)
    limit_s = min(processing.max_segment_duration_s, output.max_duration_s)
    highlights, slivers = without_short(
        trimmed(highlights, energy, limit_s, max(processing.merge_gap_s, SHORTEST_JUMP_S), output.max_segments)
    )
    choice = choose([("", highlight) for highlight in highlights], output)
    return Plan(
        kept=tuple(highlight for _, highlight in choice.kept),
        dropped=tuple(_by_time([*outside, *slivers, *(highlight for _, highlight in choice.dropped)])),
    )


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
    result: list[Highlight] = []
    for highlight in _by_time(highlights):
        if result and highlight.span.start_s - result[-1].span.end_s <= gap_s:
            result[-1] = _joined(result[-1], highlight)
        else:
            result.append(highlight)
    return result


def trimmed(
    highlights: Iterable[Highlight], energy: EnergyCurve, limit_s: float, gap_s: float = 0.0, most: int = 1
) -> list[Highlight]:
    """Of each highlight longer than the limit, the windows of exactly that length that hold the most energy.

    One hour of fighting is more than its best ten seconds: as long as a whole window fits into what is left,
    `gap_s` away from those taken, it is a highlight too, `most` of them at most.
    """
    windows = Windows(energy_until(energy), limit_s, gap_s)
    result: list[Highlight] = []
    for highlight in highlights:
        if highlight.span.duration_s <= limit_s + ROUNDING_S:
            result.append(highlight)
        else:
            spans = windows.richest_few(highlight.span, most)
            result += [_part(highlight, span, windows) for span in spans]
    return result


def choose(placed: Sequence[Placed], output: OutputSettings) -> Choice:
    """What fits the budget. `best` offers it to the highest scores first, `first` to the opening of the montage."""
    walk = in_order(placed, "score" if output.select == "best" else output.order)
    kept, dropped = within_budget(walk, output.max_segments, output.max_duration_s)
    return Choice(
        kept=tuple(in_order(kept, output.order) if output.select == "best" else kept),
        dropped=tuple(in_order(dropped, "chronological")),
    )


def within_budget(
    walk: Iterable[Placed], max_segments: int, max_duration_s: float
) -> tuple[list[Placed], list[Placed]]:
    """Greedy: stop at the segment limit, pass over what would overflow the duration."""
    kept: list[Placed] = []
    dropped: list[Placed] = []
    left_s = max_duration_s + ROUNDING_S
    for path, highlight in walk:
        if len(kept) >= max_segments:
            dropped.append((path, replace(highlight, dropped_by=SEGMENT_LIMIT)))
        elif highlight.span.duration_s > left_s:
            dropped.append((path, replace(highlight, dropped_by=DURATION_LIMIT)))
        else:
            kept.append((path, highlight))
            left_s -= highlight.span.duration_s
    return kept, dropped


def in_order(placed: Iterable[Placed], order: Order) -> list[Placed]:
    """Sorted for the montage. `hybrid` takes the best of every video, then the second best of each, and so on."""
    by_order: dict[Order, Callable[[Iterable[Placed]], list[Placed]]] = {
        "chronological": _chronological,
        "score": _best_first,
        "hybrid": _best_of_each_first,
    }
    return by_order[order](placed)


def _chronological(placed: Iterable[Placed]) -> list[Placed]:
    return sorted(placed, key=lambda pair: (pair[0], pair[1].span))


def _best_first(placed: Iterable[Placed]) -> list[Placed]:
    return sorted(placed, key=lambda pair: (-pair[1].score, pair[0], pair[1].span))


def _best_of_each_first(placed: Iterable[Placed]) -> list[Placed]:
    ranked: list[tuple[int, Placed]] = []
    seen: defaultdict[str, int] = defaultdict(int)
    for path, highlight in _best_first(placed):
        ranked.append((seen[path], (path, highlight)))
        seen[path] += 1
    ranked.sort(key=lambda entry: (entry[0], entry[1][0], entry[1][1].span))
    return [pair for _, pair in ranked]


def _part(highlight: Highlight, span: Span, windows: Windows) -> Highlight:
    """A window of a highlight; its score is the share of the energy that is shown."""
    whole = windows.energy_of(highlight.span)
    share = windows.energy_of(span) / whole if whole > 0 else span.duration_s / highlight.span.duration_s
    return replace(highlight, span=span, score=highlight.score * share)


def _joined(earlier: Highlight, later: Highlight) -> Highlight:
    span = Span(earlier.span.start_s, max(earlier.span.end_s, later.span.end_s))
    return Highlight(span, earlier.score + later.score, earlier.events + later.events)


def _moved(highlight: Highlight, start_s: float, end_s: float) -> Highlight:
    return Highlight(Span(start_s, end_s), highlight.score, highlight.events, highlight.dropped_by)


def _by_time(highlights: Iterable[Highlight]) -> list[Highlight]:
    return sorted(highlights, key=lambda highlight: (highlight.span, -highlight.score))
