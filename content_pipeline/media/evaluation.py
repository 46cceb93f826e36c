"""How well events agree with labels: what was found, what was missed, what was invented. Pure.

A labelled fight counts as found when an event overlaps it well, or starts with it: a viewer forgives a
clip that ends early, not one that misses the beginning. Events closer than a highlight's merge gap are
one event, as they are in a montage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from content_pipeline.media.detector import Candidate
from content_pipeline.media.highlights import energy_until, richest_window
from content_pipeline.media.spans import Span

if TYPE_CHECKING:
    from content_pipeline.media.highlights import EnergyCurve

MERGE_GAP_S = 2.0
LEAST_OVERLAP = 0.3
START_TOLERANCE_S = 1.0
MONTAGE_S = 20.0


@dataclass(frozen=True)
class LabelledClip:
    """`source` names the recording a clip was cut from: what is tuned on one clip of it is not judged on another."""

    file: str
    fights: tuple[Span, ...]
    source: str
    group: str

    @property
    def is_quiet(self) -> bool:
        return not self.fights


@dataclass(frozen=True)
class Agreement:
    """Counts of events and seconds; add two to judge them together."""

    found: int
    detected: int
    labelled: int
    common_s: float
    detected_s: float
    labelled_s: float

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.found + other.found,
            self.detected + other.detected,
            self.labelled + other.labelled,
            self.common_s + other.common_s,
            self.detected_s + other.detected_s,
            self.labelled_s + other.labelled_s,
        )

    @property
    def precision(self) -> float:
        return _ratio(self.found, self.detected)

    @property
    def recall(self) -> float:
        return _ratio(self.found, self.labelled)

    @property
    def f1(self) -> float:
        return _ratio(2 * self.found, self.detected + self.labelled)

    @property
    def time_f1(self) -> float:
        return _ratio(2 * self.common_s, self.detected_s + self.labelled_s)

    @property
    def false_events(self) -> int:
        return self.detected - self.found


NOTHING = Agreement(0, 0, 0, 0.0, 0.0, 0.0)


def clips_from_json(value: Mapping[str, Any]) -> tuple[LabelledClip, ...]:
    """The clips of a labels file: `{"clips": [{"file", "fights": [[start, end], ...], "source", "group"}]}`."""
    return tuple(
        LabelledClip(
            file=clip["file"],
            fights=tuple(Span(start_s, end_s) for start_s, end_s in clip["fights"]),
            source=clip.get("source", clip["file"]),
            group=clip.get("group", ""),
        )
        for clip in value["clips"]
    )


def compare(detected: Iterable[Span], labelled: Iterable[Span], gap_s: float = MERGE_GAP_S) -> Agreement:
    events = merged_spans(detected, gap_s)
    fights = sorted(labelled)
    return Agreement(
        found=sum(index is not None for index in matches(events, fights)),
        detected=len(events),
        labelled=len(fights),
        common_s=common_s(events, merged_spans(fights, 0.0)),
        detected_s=sum(event.duration_s for event in events),
        labelled_s=sum(fight.duration_s for fight in merged_spans(fights, 0.0)),
    )


def merged_spans(spans: Iterable[Span], gap_s: float) -> list[Span]:
    """In order of time, neighbours at most `gap_s` apart as one."""
    result: list[Span] = []
    for span in sorted(spans):
        if result and span.start_s - result[-1].end_s <= gap_s:
            result[-1] = Span(result[-1].start_s, max(result[-1].end_s, span.end_s))
        else:
            result.append(span)
    return result


def matches(events: Sequence[Span], fights: Sequence[Span]) -> list[int | None]:
    """For each event the fight that it found, or None; a fight is found once, by the first event that does."""
    taken: set[int] = set()
    result: list[int | None] = []
    for event in events:
        suitable = [index for index, fight in enumerate(fights) if index not in taken and _is_found(event, fight)]
        best = max(suitable, key=lambda index: _overlap(event, fights[index]), default=None)
        if best is not None:
            taken.add(best)
        result.append(best)
    return result


def common_s(first: Iterable[Span], second: Sequence[Span]) -> float:
    """Seconds that lie in both; the spans of each do not overlap among themselves."""
    return sum(span.overlap_s(other) for span in first for other in second)


def best_seconds(events: Iterable[Candidate], energy: EnergyCurve, budget_s: float = MONTAGE_S) -> list[Span]:
    """The bare montage that a detector stands for: its highest scores, each as long as it lasts, until time is up."""
    until = energy_until(energy)
    left_s = budget_s
    result: list[Span] = []
    for event in sorted(events, key=lambda event: (-event.score, event.span)):
        if left_s <= 0:
            break
        span = event.span if event.span.duration_s <= left_s else richest_window(event.span, until, left_s)
        result.append(span)
        left_s -= span.duration_s
    return result


def fight_share(montage: Sequence[Span], fights: Iterable[Span]) -> float | None:
    """The share of the montage that is a fight; None for an empty montage."""
    length_s = sum(span.duration_s for span in montage)
    return common_s(montage, merged_spans(fights, 0.0)) / length_s if length_s > 0 else None


def _is_found(event: Span, fight: Span) -> bool:
    starts_together = abs(event.start_s - fight.start_s) <= START_TOLERANCE_S and event.overlap_s(fight) > 0
    return starts_together or _overlap(event, fight) >= LEAST_OVERLAP


def _overlap(one: Span, other: Span) -> float:
    """Intersection over union."""
    union_s = one.duration_s + other.duration_s - one.overlap_s(other)
    return one.overlap_s(other) / union_s if union_s > 0 else 0.0


def _ratio(part: float, whole: float) -> float:
    """1 where there is nothing to find and nothing was found."""
    return part / whole if whole > 0 else 1.0
