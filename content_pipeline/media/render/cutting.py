"""Where to cut: pure decisions on a survey, in ticks of the recording's own clock.

A picture may be coded before pictures that are shown earlier. A series of packets can therefore only end at a
*boundary*: a place in decoding order where everything before is shown before everything after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from content_pipeline.media.render.survey import Survey
from content_pipeline.media.spans import Span


@dataclass(frozen=True)
class Boundary:
    """Packets before `index` are shown before `pts`; packets from `index` on at `pts` or later."""

    index: int
    pts: int


@dataclass(frozen=True)
class CutPlan:
    """Pictures to encode, packets to copy, pictures to encode; shown from `start` to `end`.

    `copy_from` and `copy_to` index the survey's packets; `copy_start` and `copy_end` are the times they
    are shown, which is also where the encoded head ends and the encoded tail starts.
    """

    start: int
    end: int
    copy_from: int
    copy_to: int
    copy_start: int
    copy_end: int

    @property
    def has_head(self) -> bool:
        return self.start < self.copy_start

    @property
    def has_tail(self) -> bool:
        return self.copy_end < self.end


def boundaries(survey: Survey) -> Iterator[Boundary]:
    """Every place where a series of packets may end, in order; the last one is the end of what was surveyed."""
    shown = [stamp.pts for stamp in survey.stamps]
    latest = list(accumulate(shown, max))
    earliest_after = [*accumulate(reversed(shown), min)][::-1]
    for index in range(1, len(shown)):
        if latest[index - 1] < earliest_after[index]:
            yield Boundary(index, earliest_after[index])
    yield Boundary(len(shown), survey.end_pts)


def plan_copy(survey: Survey, span: Span) -> CutPlan | None:
    """Whole packets only: the cut moves outward. None where no clean keyframe lies before the span."""
    wanted_start, wanted_end = survey.ticks(span.start_s), survey.ticks(span.end_s)
    clean = [index for index, stamp in enumerate(survey.stamps) if stamp.clean and stamp.pts <= wanted_start]
    if not clean:
        return _from_first_picture(survey, span)
    return _copied(survey, clean[-1], wanted_end)


def _from_first_picture(survey: Survey, span: Span) -> CutPlan | None:
    """A span that starts before the first picture is copied from that picture."""
    first = survey.stamps[0]
    starts_late = first.clean and survey.time_s(first.pts) <= span.start_s + 1.0 and survey.seek_s <= survey.origin_s
    return _copied(survey, 0, survey.ticks(span.end_s)) if starts_late else None


def _copied(survey: Survey, first: int, wanted_end: int) -> CutPlan:
    half = survey.frame_ticks // 2
    last = next(
        (edge for edge in boundaries(survey) if edge.pts >= wanted_end - half and edge.index > first),
        Boundary(len(survey.stamps), survey.end_pts),
    )
    start = survey.stamps[first].pts
    end = _shown_until(survey, last, wanted_end)
    return CutPlan(start, end, first, last.index, start, end)


def _shown_until(survey: Survey, edge: Boundary, wanted_end: int) -> int:
    """A picture that stands long past the planned end (a variable rate at rest) is cut off there."""
    if edge.pts <= wanted_end + survey.frame_ticks:
        return edge.pts
    last_shown = max(stamp.pts for stamp in survey.stamps[: edge.index])
    return min(edge.pts, max(wanted_end, last_shown + survey.frame_ticks))


def plan_smart(survey: Survey, span: Span) -> CutPlan:
    """Frame-accurate: what lies between the cuts and the nearest clean places is encoded."""
    first_shown = min(stamp.pts for stamp in survey.stamps)
    start = max(_snapped(survey, survey.ticks(span.start_s)), first_shown)
    end = min(_snapped(survey, survey.ticks(span.end_s)), survey.end_pts)
    first = next((i for i, stamp in enumerate(survey.stamps) if stamp.clean and stamp.pts >= start), None)
    if first is None or survey.stamps[first].pts >= end:
        return CutPlan(start, end, 0, 0, end, end)
    edges = [edge for edge in boundaries(survey) if edge.index > first]
    copy_start = survey.stamps[first].pts
    near = min(edges, key=lambda edge: (abs(edge.pts - end), edge.pts))
    if _is_close(survey, near.pts, start, span):
        return CutPlan(start, near.pts, first, near.index, copy_start, near.pts)
    edges_in_time = [edge for edge in edges if edge.pts <= end]
    if not edges_in_time:
        return CutPlan(start, end, 0, 0, end, end)
    last = edges_in_time[-1]
    return CutPlan(start, end, first, last.index, copy_start, last.pts)


def _is_close(survey: Survey, end: int, start: int, span: Span) -> bool:
    """Within one frame of the plan, both the end itself and the length."""
    off_end = abs(end - survey.ticks(span.end_s))
    off_length = abs((end - start) - round(span.duration_s / survey.time_base))
    return max(off_end, off_length) <= survey.frame_ticks


def _snapped(survey: Survey, wanted: int) -> int:
    """The start of the picture nearest to a wanted time, or that time itself while one picture stands long."""
    nearest = min((stamp.pts for stamp in survey.stamps), key=lambda pts: abs(pts - wanted))
    nearest = min((nearest, survey.end_pts), key=lambda pts: abs(pts - wanted))
    return nearest if abs(nearest - wanted) * 2 <= survey.frame_ticks + 1 else wanted
