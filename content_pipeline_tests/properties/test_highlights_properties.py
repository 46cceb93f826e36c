"""What holds of every plan, whatever the events and the settings."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Candidate
from content_pipeline.media.selection.highlights import Highlight, MontageRules, Plan, in_order, plan_highlights
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings, OutputSettings, ProcessingSettings

ROUNDING_S = 1e-5

detections = st.builds(DetectionSettings, event_lookback_s=st.floats(0, 10))
processings = st.builds(
    ProcessingSettings,
    context_padding_s=st.floats(0, 3),
    merge_gap_s=st.floats(0, 5),
    max_segment_duration_s=st.floats(0.001, 30),
)
outputs = st.builds(
    OutputSettings,
    max_duration_s=st.floats(0.001, 90),
    max_segments=st.integers(1, 12),
    order=st.sampled_from(["chronological", "score", "hybrid"]),
    select=st.sampled_from(["best", "first"]),
)
events = st.lists(
    st.builds(
        lambda start_s, length_s, score: Candidate(Span(start_s, start_s + length_s), score),
        st.floats(0, 320),
        st.floats(0, 60),
        st.floats(0, 100),
    ),
    max_size=15,
)
cases = st.tuples(events, st.floats(0, 300), st.integers(0, 100), detections, processings, outputs)
Case = tuple[list[Candidate], float, int, DetectionSettings, ProcessingSettings, OutputSettings]


def plan_of(case: Case) -> Plan:
    candidates, duration_s, seed, detection, processing, output = case
    energy = np.random.default_rng(seed).random(round(duration_s * FRAME_RATE_HZ))
    return plan_highlights(candidates, energy, duration_s, MontageRules.of(detection, processing, output))


def by_time(plan: Plan) -> list[Highlight]:
    return sorted([*plan.kept, *plan.dropped], key=lambda highlight: highlight.span)


@given(cases)
def test_highlights_lie_inside_the_video(case: Case) -> None:
    duration_s = case[1]
    assert all(0 <= each.span.start_s <= each.span.end_s <= duration_s for each in by_time(plan_of(case)))


@given(cases)
def test_kept_highlights_never_overlap_or_touch_within_the_merge_gap(case: Case) -> None:
    kept = sorted(plan_of(case).kept, key=lambda each: each.span)
    assert all(
        later.span.start_s - earlier.span.end_s > case[4].merge_gap_s - ROUNDING_S for earlier, later in pairwise(kept)
    )


@given(cases)
def test_no_highlight_is_longer_than_both_limits_or_shorter_than_a_frame(case: Case) -> None:
    limit_s = min(case[4].max_segment_duration_s, case[5].max_duration_s)
    for each in plan_of(case).kept:
        assert 1 / FRAME_RATE_HZ - ROUNDING_S <= each.span.duration_s <= limit_s + ROUNDING_S


@given(cases)
def test_the_budget_holds(case: Case) -> None:
    plan, output = plan_of(case), case[5]
    assert len(plan.kept) <= output.max_segments
    assert sum(highlight.span.duration_s for highlight in plan.kept) <= output.max_duration_s + ROUNDING_S


@given(cases)
def test_kept_highlights_come_in_the_order_asked_for(case: Case) -> None:
    kept, output = plan_of(case).kept, case[5]
    assert in_order(kept, output.order) == list(kept)


@given(cases)
def test_kept_ones_carry_no_rule_and_dropped_ones_do(case: Case) -> None:
    plan = plan_of(case)
    assert all(each.dropped_by is None for each in plan.kept)
    assert all(each.dropped_by is not None for each in plan.dropped)


@given(cases)
def test_every_event_is_in_a_highlight(case: Case) -> None:
    """In one of the montage, or in one that a rule dropped."""
    assert {event for each in by_time(plan_of(case)) for event in each.events} == set(case[0])


@given(cases)
def test_an_event_counts_as_kept_only_if_a_clip_belongs_to_it(case: Case) -> None:
    plan, detection, processing = plan_of(case), case[3], case[4]
    before_s, after_s = detection.event_lookback_s + processing.context_padding_s, processing.context_padding_s
    for event in plan.explain(case[0]):
        about = Span(event.span.start_s - before_s, event.span.end_s + after_s)
        if event.dropped_by is None:
            assert any(each.span.overlap_s(about) > 0 for each in plan.kept)


@given(cases)
def test_the_moment_to_show_lies_in_the_highlight(case: Case) -> None:
    for each in plan_of(case).kept:
        assert each.peak_s is not None
        assert each.span.start_s <= each.peak_s <= each.span.end_s


@given(cases)
def test_a_better_highlight_is_dropped_only_for_length(case: Case) -> None:
    """With `best`, the segment limit never drops one that scores above one that was kept."""
    plan, output = plan_of(case), case[5]
    if output.select == "best" and plan.kept:
        worst = min(each.score for each in plan.kept)
        assert all(each.score <= worst for each in plan.dropped if each.dropped_by == "segment limit")


@settings(max_examples=50)
@given(cases, st.randoms())
def test_the_plan_depends_on_the_events_not_on_their_order(case: Case, random: object) -> None:
    shuffled = list(case[0])
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert spans(plan_of(case)) == spans(plan_of((shuffled, *case[1:])))


def spans(plan: Plan) -> list[Span]:
    return [each.span for each in plan.kept]
