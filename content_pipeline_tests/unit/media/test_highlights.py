from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Candidate
from content_pipeline.media.selection.highlights import (
    Highlight,
    MontageRules,
    Order,
    Plan,
    choose,
    clamped,
    in_order,
    merged,
    plan_highlights,
    trimmed,
    with_lookback,
    with_padding,
    with_peak,
    within_budget,
    without_short,
)
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings, OutputSettings, ProcessingSettings


def highlight(start_s: float, end_s: float, score: float = 1.0, *events: Candidate) -> Highlight:
    """By default one event that is all of it."""
    return Highlight(Span(start_s, end_s), score, events if events else (event(start_s, end_s, score),))


def cut(highlights: list[Highlight], energy: np.ndarray, limit_s: float, most: int = 1) -> list[Highlight]:
    return trimmed(highlights, energy, rules(max_segment_duration_s=limit_s, max_segments=most))[0]


def event(start_s: float, end_s: float, score: float = 1.0) -> Candidate:
    return Candidate(Span(start_s, end_s), score)


def flat_energy(duration_s: float) -> np.ndarray:
    return np.ones(round(duration_s * FRAME_RATE_HZ))


def plan(events: list[Candidate], duration_s: float = 600.0, **changes: object) -> Plan:
    return plan_highlights(events, flat_energy(duration_s), duration_s, rules(**changes))


def rules(**changes: object) -> MontageRules:
    """With no lookback, padding or merging unless asked for."""
    bare = {"event_lookback_s": 0, "context_padding_s": 0, "merge_gap_s": 0} | changes
    groups = (DetectionSettings, ProcessingSettings, OutputSettings)
    detection, processing, output = (
        group.model_validate({key: value for key, value in bare.items() if key in group.model_fields})
        for group in groups
    )
    assert isinstance(detection, DetectionSettings)
    assert isinstance(processing, ProcessingSettings)
    assert isinstance(output, OutputSettings)
    return MontageRules.of(detection, processing, output)


def spans(highlights: tuple[Highlight, ...]) -> list[tuple[float, float]]:
    return [(each.span.start_s, each.span.end_s) for each in highlights]


def test_lookback_moves_only_the_start() -> None:
    assert with_lookback([highlight(10, 12)], 5) == [highlight(5, 12, 1.0, event(10, 12))]


def test_padding_moves_both_ends() -> None:
    assert with_padding([highlight(10, 12)], 1) == [highlight(9, 13, 1.0, event(10, 12))]


@pytest.mark.parametrize(
    ("before", "after"),
    [((-3, 5), (0, 5)), ((95, 104), (95, 100)), ((-1, 200), (0, 100)), ((120, 130), (100, 100)), ((-9, -4), (0, 0))],
)
def test_clamping_keeps_highlights_inside_the_video(before: tuple[float, float], after: tuple[float, float]) -> None:
    assert clamped([highlight(*before)], 100) == [highlight(*after, 1.0, event(*before))]


def test_what_is_shorter_than_a_frame_is_dropped_and_says_so() -> None:
    long, short = without_short([highlight(1, 1.001), highlight(2, 2 + 1 / FRAME_RATE_HZ), highlight(3, 3)])

    assert long == [highlight(2, 2 + 1 / FRAME_RATE_HZ)]
    assert {each.dropped_by for each in short} == {"too short"}


@pytest.mark.parametrize(("gap_s", "expected"), [(1.9, [(0, 4), (6, 9)]), (2.0, [(0, 9)])])
def test_neighbours_merge_up_to_the_gap(gap_s: float, expected: list[tuple[float, float]]) -> None:
    assert spans(tuple(merged([highlight(6, 9), highlight(0, 4)], gap_s))) == expected


def test_a_merged_highlight_holds_the_events_and_the_score_of_all() -> None:
    parts = [highlight(0, 4, 2.0), highlight(1, 2, 0.5), highlight(5, 6, 1.0)]
    events = [part.events[0] for part in parts]

    assert merged(parts, 1) == [highlight(0, 6, 3.5, *events)]


def test_a_long_highlight_keeps_the_window_with_the_most_energy() -> None:
    energy = flat_energy(100) * 0.01
    energy[round(40 * FRAME_RATE_HZ) : round(45 * FRAME_RATE_HZ)] = 1

    fights = [event(11, 12), event(38, 41), event(44, 60), event(70, 71)]

    (kept,) = cut([highlight(10, 90, 7.0, *fights)], energy, 5.0)

    assert kept.span.start_s == pytest.approx(40, abs=0.03)
    assert kept.span.duration_s == pytest.approx(5.0, abs=1e-9)
    assert kept.events == (fights[1], fights[2])
    assert kept.part_of == Span(10, 90)


def test_the_score_of_a_window_is_its_share_of_the_energy() -> None:
    (kept,) = cut([highlight(10, 90, 8.0)], flat_energy(100), 20.0)

    assert kept.score == pytest.approx(2.0, rel=0.01)


def test_what_is_left_of_a_long_highlight_gives_further_windows() -> None:
    energy = flat_energy(100) * 0.01
    energy[round(40 * FRAME_RATE_HZ) : round(45 * FRAME_RATE_HZ)] = 1
    energy[round(70 * FRAME_RATE_HZ) : round(75 * FRAME_RATE_HZ)] = 0.5

    kept = cut([highlight(10, 90)], energy, 5.0, most=3)

    assert [round(each.span.start_s) for each in kept[1:]] == [40, 70]
    assert all(later.span.start_s - each.span.end_s >= 1.0 - 1e-6 for each, later in pairwise(kept))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([event(2, 5)], [(0, 10)]),
        ([event(2, 10.5)], [(0, 10)]),
        ([event(2, 5), event(13, 15)], [(0, 10), (12.5, 15.5)]),
        ([event(2, 15)], [(0, 10), (11, 15.5)]),
        ([event(2, 5), event(15, 15.05)], [(0, 10)]),
    ],
    ids=["no event", "an event in the jump", "an event", "the rest of an event", "too little of one"],
)
def test_a_rest_that_is_shorter_than_a_window_is_shown_as_far_as_it_holds_an_event(
    events: list[Candidate], expected: list[tuple[float, float]]
) -> None:
    energy = flat_energy(100)
    energy[: round(10 * FRAME_RATE_HZ)] = 2
    limits = rules(max_segment_duration_s=10, event_lookback_s=0, context_padding_s=0.5)

    pieces, _ = trimmed([highlight(0, 18, 1.0, *events)], energy, limits)

    assert spans(tuple(pieces)) == expected


def test_an_event_that_no_window_shows_is_dropped_by_name() -> None:
    events = [event(1, 9), event(11.2, 12.8), event(14, 23), event(25, 40)]

    result = plan(events, merge_gap_s=3, max_segment_duration_s=10, max_segments=2)

    assert spans(result.kept) == [(1, 11), (14, 24)]
    rule = "not among the loudest windows"
    assert [(each.span, each.dropped_by) for each in result.dropped] == [(events[1].span, rule), (events[3].span, rule)]
    explained = result.explain([*events, replace(event(50, 51), dropped_by="tonal")])
    assert [each.dropped_by for each in explained] == [None, rule, None, rule, "tonal"]


def test_no_quiet_rest_is_shown_where_a_louder_window_of_the_same_highlight_has_no_room() -> None:
    result = plan([event(0, 18), event(100, 105, 99)], max_segment_duration_s=10, max_duration_s=14)

    assert spans(result.kept) == [(100, 105)]
    assert {each.dropped_by for each in result.dropped} == {"duration limit"}


def test_the_moment_to_show_is_where_the_strongest_event_is_loudest() -> None:
    energy = flat_energy(100)
    energy[round(12 * FRAME_RATE_HZ)] = 9  # loud, but in the weaker event
    energy[round(33 * FRAME_RATE_HZ)] = 5
    whole = highlight(5, 60, 3.0, event(10, 15, 1.0), event(30, 40, 2.0))

    assert with_peak(whole, energy).peak_s == pytest.approx(33, abs=0.03)
    assert with_peak(replace(whole, span=Span(5, 20)), energy).peak_s == pytest.approx(20, abs=0.03)
    assert with_peak(replace(whole, events=()), energy).peak_s == pytest.approx(12, abs=0.03)


def test_of_equal_windows_the_earliest_is_kept() -> None:
    assert spans(tuple(cut([highlight(10, 90)], np.zeros(5000), 5.0))) == [(10, 15)]


def test_a_highlight_within_the_limit_is_left_alone() -> None:
    assert cut([highlight(10, 15)], flat_energy(100), 5.0) == [highlight(10, 15)]


def test_energy_that_ends_before_the_highlight_does_counts_as_nothing() -> None:
    (kept,) = cut([highlight(10, 90)], flat_energy(20), 5.0)

    assert kept.span.end_s <= 20 + 1e-6


@pytest.mark.parametrize(
    ("order", "starts"), [("chronological", [10, 20, 30]), ("score", [20, 30, 10]), ("hybrid", [20, 30, 10])]
)
def test_highlights_are_ordered_by_time_or_by_score(order: Order, starts: list[float]) -> None:
    highlights = [highlight(30, 32, 5.0), highlight(10, 12, 1.0), highlight(20, 22, 8.0)]

    assert [each.span.start_s for each in in_order(highlights, order)] == starts


def test_equal_scores_fall_back_to_the_start() -> None:
    highlights = [highlight(5, 6), highlight(1, 2)]

    assert in_order(highlights, "score") == highlights[::-1]


def test_the_budget_skips_what_would_overflow_and_goes_on() -> None:
    walk = [highlight(0, 10), highlight(20, 35), highlight(40, 48)]

    kept, dropped = within_budget(walk, max_segments=5, max_duration_s=20)

    assert kept == [walk[0], walk[2]]
    assert dropped == [replace(walk[1], dropped_by="duration limit")]


def test_the_budget_stops_at_the_segment_limit() -> None:
    walk = [highlight(start, start + 1) for start in range(0, 10, 2)]

    kept, dropped = within_budget(walk, max_segments=2, max_duration_s=100)

    assert kept == walk[:2]
    assert {each.dropped_by for each in dropped} == {"segment limit"}


def test_two_windows_of_ten_seconds_fill_a_montage_of_twenty() -> None:
    walk = [highlight(0.1, 0.1 + 10), highlight(33.3, 33.3 + 10)]

    kept, _ = within_budget(walk, max_segments=5, max_duration_s=20)

    assert kept == walk


@pytest.mark.parametrize(("select", "starts"), [("best", [20, 30]), ("first", [10, 20])])
def test_a_full_budget_keeps_the_best_or_the_first_and_shows_them_in_order(select: str, starts: list[float]) -> None:
    highlights = [highlight(10, 12, 1.0), highlight(20, 22, 3.0), highlight(30, 32, 2.0)]

    kept, _ = choose(highlights, OutputSettings.model_validate({"max_segments": 2, "select": select}))

    assert [each.span.start_s for each in kept] == starts


def test_the_whole_plan_reads_from_events_to_ordered_highlights() -> None:
    result = plan(
        [event(50, 52, 2.0), event(20, 22, 1.0), event(100, 140, 9.0)],
        event_lookback_s=5,
        context_padding_s=1,
        merge_gap_s=2,
        max_segment_duration_s=10,
        order="score",
    )

    assert spans(result.kept) == [(44, 53), (94, 104), (106, 116), (118, 128), (130, 140), (14, 23)]
    assert result.dropped == ()
    assert sum(highlight.span.duration_s for highlight in result.kept) == pytest.approx(58)


def test_what_a_full_budget_drops_is_listed_with_the_rule() -> None:
    result = plan([event(start, start + 4, start) for start in (10, 20, 30)], max_duration_s=9)

    assert spans(result.kept) == [(20, 24), (30, 34)]
    assert [(each.span.start_s, each.dropped_by) for each in result.dropped] == [(10, "duration limit")]


def test_a_montage_shorter_than_a_segment_limits_the_segment() -> None:
    result = plan([event(10, 40)], max_segment_duration_s=10, max_duration_s=4)

    assert sum(highlight.span.duration_s for highlight in result.kept) == pytest.approx(4)


def test_candidates_that_a_rule_dropped_are_no_events() -> None:
    assert plan([replace(event(10, 12), dropped_by="tonal")]) == Plan((), ())


@pytest.mark.parametrize("events", [[], [event(700, 710)]], ids=["none", "after the end"])
def test_without_events_in_the_video_the_montage_is_empty(events: list[Candidate]) -> None:
    assert plan(events).kept == ()


def test_a_video_of_no_length_has_no_highlights() -> None:
    result = plan([event(0, 1)], duration_s=0.0)

    assert result.kept == ()
    assert [each.dropped_by for each in result.dropped] == ["too short"]
