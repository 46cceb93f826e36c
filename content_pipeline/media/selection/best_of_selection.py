"""The best of many videos: which highlights of a library stand out most. Pure; nothing is read or cut here.

Scores of different recordings do not compare: one is loud, one is all action, one has a single bang. So a
highlight is held against what its own recording offered, and only how far it stands out is compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from content_pipeline.media.selection.highlights import DURATION_LIMIT, SEGMENT_LIMIT, Highlight
from content_pipeline.media.selection.windows import ROUNDING_S
from content_pipeline.media.spans import Span
from content_pipeline.settings import BestOfSettings

VIDEO_LIMIT = "video limit"

# How far candidates of a recording usually lie from their median, as a factor of e: measured on gameplay, 0.6 to 1.3.
USUAL_SPREAD = 1.0
# With so many beside it a highlight is believed by half: a median of three is hardly one.
FEW_CANDIDATES = 4
# Nothing scores less; a logarithm needs a number above zero.
LEAST_SCORE = 1e-9
# Digits of a standing that count: another machine's logarithm must not decide.
STANDING_DIGITS = 6


@dataclass(frozen=True)
class Offer:
    """What one video brings: its highlights, and the score of every candidate, events or not."""

    video_key: str
    highlights: tuple[Highlight, ...]
    candidate_scores: tuple[float, ...]


@dataclass(frozen=True)
class Contender:
    """A highlight, and how far it stands out of its own recording; 0 is what that recording usually offers."""

    video_key: str
    span: Span
    score: float
    standing: float
    peak_s: float | None = None
    dropped_by: str | None = None


@dataclass(frozen=True)
class BestOf:
    """`kept` in the order of showing; `dropped` by video and time, each with the rule that dropped it."""

    kept: tuple[Contender, ...]
    dropped: tuple[Contender, ...]


def best_of(offers: Sequence[Offer], settings: BestOfSettings) -> BestOf:
    """What stands out most and fits; the order in which videos are given changes nothing."""
    contenders = sorted((contender for offer in offers for contender in standings(offer)), key=_best_first)
    kept, dropped = _within_budget(contenders, settings)
    orders: dict[str, Callable[[list[Contender]], list[Contender]]] = {
        "score": lambda contenders: sorted(contenders, key=_best_first),
        "chronological": lambda contenders: sorted(contenders, key=_by_time),
        "hybrid": alternating,
    }
    return BestOf(tuple(orders[settings.order](kept)), tuple(sorted(dropped, key=_by_time)))


def alternating(contenders: Iterable[Contender]) -> list[Contender]:
    """The strongest first, but never two of one video in a row, unless nothing else is left.

    A video with more than half of what is left has to be next, or its clips would end up in a row at the end.
    """
    left = sorted(contenders, key=_best_first)
    counts = Counter(contender.video_key for contender in left)
    result: list[Contender] = []
    while left:
        previous = result[-1].video_key if result else None
        others = [contender for contender in left if contender.video_key != previous]
        urgent = [contender for contender in others if 2 * counts[contender.video_key] > len(left)]
        following = next(iter(urgent or others or left))
        left.remove(following)
        counts[following.video_key] -= 1
        result.append(following)
    return result


def standings(offer: Offer) -> list[Contender]:
    """Each highlight in spreads above the median candidate of its video, on a logarithmic scale.

    Twice the level is a step up for all scores of a recording, and is taken away again with the median.
    A spread below the usual does not count as one: among candidates that are all alike, a little more is
    no peak. And the fewer candidates there are, the less is claimed: a video with one event has nothing
    to stand out of, and stands at 0.
    """
    levels = [_level(score) for score in offer.candidate_scores]
    if not levels:
        return [_contender(offer, highlight, 0.0) for highlight in offer.highlights]
    usual = median(levels)
    spread = max(USUAL_SPREAD, median(abs(level - usual) for level in levels))
    trust = (len(levels) - 1) / (len(levels) - 1 + FEW_CANDIDATES)
    return [
        _contender(offer, highlight, trust * (_level(highlight.score) - usual) / spread)
        for highlight in offer.highlights
    ]


def _level(score: float) -> float:
    return math.log(max(score, LEAST_SCORE))


def _contender(offer: Offer, highlight: Highlight, standing: float) -> Contender:
    # Adding zero turns -0.0, which JSON would show, into 0.0.
    standing = round(standing, STANDING_DIGITS) + 0.0
    return Contender(offer.video_key, highlight.span, highlight.score, standing, highlight.peak_s)


def _within_budget(walk: Iterable[Contender], settings: BestOfSettings) -> tuple[list[Contender], list[Contender]]:
    """Greedy, best first: pass over what a full video or a full best-of has no room for."""
    kept: list[Contender] = []
    dropped: list[Contender] = []
    of_video: Counter[str] = Counter()
    left_s = settings.max_duration_s + ROUNDING_S
    for contender in walk:
        if len(kept) >= settings.max_segments:
            dropped.append(replace(contender, dropped_by=SEGMENT_LIMIT))
        elif of_video[contender.video_key] >= settings.max_per_video:
            dropped.append(replace(contender, dropped_by=VIDEO_LIMIT))
        elif contender.span.duration_s > left_s:
            dropped.append(replace(contender, dropped_by=DURATION_LIMIT))
        else:
            kept.append(contender)
            of_video[contender.video_key] += 1
            left_s -= contender.span.duration_s
    return kept, dropped


def _best_first(contender: Contender) -> tuple[float, str, Span]:
    return -contender.standing, contender.video_key, contender.span


def _by_time(contender: Contender) -> tuple[str, Span]:
    return contender.video_key, contender.span
