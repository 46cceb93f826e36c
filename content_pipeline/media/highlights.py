"""From events to the highlights of a montage: widen, merge, trim, choose, order. Pure; nothing is read or cut here.

Only the choosing looks across videos, so it works on `(path, highlight)` pairs: a montage of one
recording and a best-of over many follow the same rules.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from content_pipeline.media.curves import FRAME_RATE_HZ
from content_pipeline.media.detector import Candidate
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings, OutputSettings, ProcessingSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    EnergyCurve = NDArray[np.floating[Any]]

TOO_SHORT = "too short"
SEGMENT_LIMIT = "segment limit"
DURATION_LIMIT = "duration limit"

# Two windows of one long highlight lie at least this far apart: without a jump they would be one long clip.
SHORTEST_JUMP_S = 1.0
SHORTEST_S = 1 / FRAME_RATE_HZ
# Spans are sums of floats: two windows of 10 s must fit a budget of 20 s.
ROUNDING_S = 1e-6

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
    until = energy_until(energy)
    result: list[Highlight] = []
    for highlight in highlights:
        if highlight.span.duration_s <= limit_s + ROUNDING_S:
            result.append(highlight)
        else:
            spans = richest_windows(highlight.span, until, limit_s, gap_s, most)
            result += [_part(highlight, span, until) for span in spans]
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


def energy_until(energy: EnergyCurve) -> NDArray[np.float64]:
    """The energy before each frame, and before the end: any window's energy is one subtraction."""
    return np.concatenate(([0.0], np.cumsum(energy, dtype=np.float64)))


def richest_window(span: Span, until: NDArray[np.float64], limit_s: float) -> Span:
    """The part of a longer span that lasts `limit_s` and holds the most energy; of equal parts, the earliest."""
    last_start_s = span.end_s - limit_s
    frames = np.arange(np.ceil(span.start_s * FRAME_RATE_HZ), np.floor(last_start_s * FRAME_RATE_HZ) + 1)
    starts_s = np.concatenate(([span.start_s], frames / FRAME_RATE_HZ, [last_start_s]))
    held = _energy_before(starts_s + limit_s, until) - _energy_before(starts_s, until)
    # Sums differ in their last digits: equal means equal to a billionth.
    start_s = float(starts_s[int(np.argmax(held >= held.max() * (1 - 1e-9)))])
    return Span(start_s, min(start_s + limit_s, span.end_s))


def richest_windows(span: Span, until: NDArray[np.float64], limit_s: float, gap_s: float, most: int) -> list[Span]:
    """The richest window, then the richest of what is left on both sides, and so on; in order of time."""
    rests: list[tuple[float, Span, Span]] = []  # the energy of the best window, the window, where it was found

    def offer(rest: Span) -> None:
        if rest.duration_s >= limit_s - ROUNDING_S:
            window = richest_window(rest, until, limit_s)
            heapq.heappush(rests, (-energy_of(window, until), window, rest))

    offer(span)
    taken: list[Span] = []
    while rests and len(taken) < most:
        _, window, rest = heapq.heappop(rests)
        taken.append(window)
        offer(Span(rest.start_s, window.start_s - gap_s))
        offer(Span(window.end_s + gap_s, rest.end_s))
    return sorted(taken)


def energy_of(span: Span, until: NDArray[np.float64]) -> float:
    before = _energy_before(np.array([span.start_s, span.end_s]), until)
    return float(before[1] - before[0])


def _part(highlight: Highlight, span: Span, until: NDArray[np.float64]) -> Highlight:
    """A window of a highlight; its score is the share of the energy that is shown."""
    whole = energy_of(highlight.span, until)
    share = energy_of(span, until) / whole if whole > 0 else span.duration_s / highlight.span.duration_s
    return replace(highlight, span=span, score=highlight.score * share)


def _energy_before(times_s: NDArray[np.float64], until: NDArray[np.float64]) -> NDArray[np.float64]:
    """`until` read between frames; only the frames asked for are touched, so that 12 hours cost no more than one."""
    position = np.clip(times_s * FRAME_RATE_HZ, 0, len(until) - 1)
    frame = position.astype(np.intp)
    following = np.minimum(frame + 1, len(until) - 1)
    return until[frame] + (position - frame) * (until[following] - until[frame])


def _joined(earlier: Highlight, later: Highlight) -> Highlight:
    span = Span(earlier.span.start_s, max(earlier.span.end_s, later.span.end_s))
    return Highlight(span, earlier.score + later.score, earlier.events + later.events)


def _moved(highlight: Highlight, start_s: float, end_s: float) -> Highlight:
    return replace(highlight, span=Span(start_s, end_s))


def _by_time(highlights: Iterable[Highlight]) -> list[Highlight]:
    return sorted(highlights, key=lambda highlight: (highlight.span, -highlight.score))
