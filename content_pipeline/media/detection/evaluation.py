"""How well events agree with labels: what was found, what was missed, what was invented. Pure.

A labelled fight counts as found when an event overlaps it well, or starts with it: a viewer forgives a
clip that ends early, not one that misses the beginning. Events closer than a highlight's merge gap are
one event, as they are in a montage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves.model import Curves
from content_pipeline.media.detection.detector import Candidate, detector_for
from content_pipeline.media.detection.labels import LabelledClip
from content_pipeline.media.selection.windows import SHORTEST_S, Windows, energy_until
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings

if TYPE_CHECKING:
    from content_pipeline.media.selection.windows import EnergyCurve

MERGE_GAP_S = 2.0
LEAST_OVERLAP = 0.3
START_TOLERANCE_S = 1.0
MONTAGE_S = 20.0


@dataclass(frozen=True)
class Agreement:
    """Counts of events and seconds; add two to judge them together."""

    matched: int
    detected: int
    labelled: int
    common_s: float
    detected_s: float
    labelled_s: float

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.matched + other.matched,
            self.detected + other.detected,
            self.labelled + other.labelled,
            self.common_s + other.common_s,
            self.detected_s + other.detected_s,
            self.labelled_s + other.labelled_s,
        )

    @property
    def precision(self) -> float:
        # Who finds nothing where there is something is not precise.
        return _ratio(self.matched, self.detected) if self.detected or not self.labelled else 0.0

    @property
    def recall(self) -> float:
        return _ratio(self.matched, self.labelled)

    @property
    def f1(self) -> float:
        return _ratio(2 * self.matched, self.detected + self.labelled)

    @property
    def time_f1(self) -> float:
        return _ratio(2 * self.common_s, self.detected_s + self.labelled_s)


NOTHING = Agreement(0, 0, 0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Verdict:
    """On one clip. `montage_share` is None for a quiet clip, and 0 where there are fights and nothing is shown."""

    clip: LabelledClip
    agreement: Agreement
    montage_s: float
    montage_share: float | None


def judge(clip: LabelledClip, curves: Curves, settings: DetectionSettings) -> Verdict:
    """What a detector with these settings finds in a clip, held against what a person found."""
    return verdict(clip, detector_for(settings).detect(curves).events, np.square(curves.broadband))


def verdict(clip: LabelledClip, events: Sequence[Candidate], energy: EnergyCurve) -> Verdict:
    montage = best_seconds(events, energy)
    return Verdict(
        clip,
        compare((event.span for event in events), clip.fights),
        sum(span.duration_s for span in montage),
        None if clip.is_quiet else fight_share(montage, clip.fights),
    )


@dataclass(frozen=True)
class Judgement:
    """Over all clips. Events and time are counted together; every montage counts the same."""

    verdicts: tuple[Verdict, ...]

    @property
    def agreement(self) -> Agreement:
        return sum((verdict.agreement for verdict in self.verdicts), NOTHING)

    @property
    def false_events_quiet(self) -> int:
        return sum(verdict.agreement.detected for verdict in self.verdicts if verdict.clip.is_quiet)

    @property
    def montage_share(self) -> float | None:
        shares = [verdict.montage_share for verdict in self.verdicts if verdict.montage_share is not None]
        return sum(shares) / len(shares) if shares else None

    @property
    def empty_montages(self) -> int:
        """Of clips with fights; each counts as a share of 0."""
        return sum(verdict.montage_s == 0 for verdict in self.verdicts if not verdict.clip.is_quiet)


def held_out(tried: Mapping[float, Judgement]) -> Judgement:
    """What tuning is worth on recordings it has not seen: each source is judged with the value, of those tried,
    that suits the clips of all other sources best."""

    def quality(value: float, source: str) -> float:
        others = Judgement(tuple(verdict for verdict in tried[value].verdicts if verdict.clip.source != source))
        share = others.montage_share
        return others.agreement.f1 + (share if share is not None else 0.0)

    def judged(source: str) -> Iterable[Verdict]:
        best = max(tried, key=lambda value: quality(value, source))
        return (verdict for verdict in tried[best].verdicts if verdict.clip.source == source)

    sources = sorted({verdict.clip.source for judgement in tried.values() for verdict in judgement.verdicts})
    return Judgement(tuple(verdict for source in sources for verdict in judged(source)))


def at_level(curves: Curves, gain_db: float) -> Curves:
    """The same recording made louder or quieter."""
    gain = np.float32(10 ** (gain_db / 20))
    return curves.each(lambda curve: curve * gain)


def compare(detected: Iterable[Span], labelled: Iterable[Span], gap_s: float = MERGE_GAP_S) -> Agreement:
    events = merged_spans(detected, gap_s)
    fights = sorted(labelled)
    return Agreement(
        matched=sum(index is not None for index in matches(events, fights)),
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
        if left_s < SHORTEST_S:
            break
        span = event.span if event.span.duration_s <= left_s else Windows(until, left_s).richest(event.span)
        result.append(span)
        left_s -= span.duration_s
    return result


def fight_share(montage: Sequence[Span], fights: Iterable[Span]) -> float:
    """The share of the montage that is a fight; a montage that shows nothing shows no fight."""
    length_s = sum(span.duration_s for span in montage)
    return common_s(montage, merged_spans(fights, 0.0)) / length_s if length_s > 0 else 0.0


def _is_found(event: Span, fight: Span) -> bool:
    starts_together = abs(event.start_s - fight.start_s) <= START_TOLERANCE_S and event.overlap_s(fight) > 0
    return starts_together or _overlap(event, fight) >= LEAST_OVERLAP


def _overlap(span: Span, other: Span) -> float:
    """Intersection over union."""
    union_s = span.duration_s + other.duration_s - span.overlap_s(other)
    return span.overlap_s(other) / union_s if union_s > 0 else 0.0


def _ratio(part: float, whole: float) -> float:
    """1 where there is nothing to find and nothing was found."""
    return part / whole if whole > 0 else 1.0
