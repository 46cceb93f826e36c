from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Candidate
from content_pipeline.media.selection.highlights import (
    Highlight,
    Order,
    Placed,
    Plan,
    choose,
    clamped,
    in_order,
    merged,
    plan_highlights,
    trimmed,
    with_lookback,
    with_padding,
    within_budget,
    without_short,
)
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings, OutputSettings, ProcessingSettings


def highlight(start_s: float, end_s: float, score: float = 1.0, events: int = 1) -> Highlight:
    return Highlight(Span(start_s, end_s), score, events)


def event(start_s: float, end_s: float, score: float = 1.0) -> Candidate:
    return Candidate(Span(start_s, end_s), score)


def flat_energy(duration_s: float) -> np.ndarray:
    return np.ones(round(duration_s * FRAME_RATE_HZ))


def plan(events: list[Candidate], duration_s: float = 600.0, **changes: object) -> Plan:
    """A plan with no lookback, padding or merging unless asked for."""
    bare = {"event_lookback_s": 0, "context_padding_s": 0, "merge_gap_s": 0} | changes
    groups = (DetectionSettings, ProcessingSettings, OutputSettings)
    detection, processing, output = (
        group.model_validate({key: value for key, value in bare.items() if key in group.model_fields})
        for group in groups
    )
    assert isinstance(detection, DetectionSettings)
    assert isinstance(processing, ProcessingSettings)
    assert isinstance(output, OutputSettings)
    return plan_highlights(events, flat_energy(duration_s), duration_s, detection, processing, output)


def spans(highlights: tuple[Highlight, ...]) -> list[tuple[float, float]]:
    return [(each.span.start_s, each.span.end_s) for each in highlights]


def test_lookback_moves_only_the_start() -> None:
    assert with_lookback([highlight(10, 12)], 5) == [highlight(5, 12)]


def test_padding_moves_both_ends() -> None:
    assert with_padding([highlight(10, 12)], 1) == [highlight(9, 13)]


@pytest.mark.parametrize(
    ("before", "after"),
    [((-3, 5), (0, 5)), ((95, 104), (95, 100)), ((-1, 200), (0, 100)), ((120, 130), (100, 100)), ((-9, -4), (0, 0))],
)
def test_clamping_keeps_highlights_inside_the_video(before: tuple[float, float], after: tuple[float, float]) -> None:
    assert clamped([highlight(*before)], 100) == [highlight(*after)]


def test_what_is_shorter_than_a_frame_is_dropped_and_says_so() -> None:
    long, short = without_short([highlight(1, 1.001), highlight(2, 2 + 1 / FRAME_RATE_HZ), highlight(3, 3)])

    assert long == [highlight(2, 2 + 1 / FRAME_RATE_HZ)]
    assert {each.dropped_by for each in short} == {"too short"}


@pytest.mark.parametrize(("gap_s", "expected"), [(1.9, [(0, 4), (6, 9)]), (2.0, [(0, 9)])])
def test_neighbours_merge_up_to_the_gap(gap_s: float, expected: list[tuple[float, float]]) -> None:
    assert spans(tuple(merged([highlight(6, 9), highlight(0, 4)], gap_s))) == expected


def test_a_merged_highlight_holds_the_events_and_the_score_of_all() -> None:
    assert merged([highlight(0, 4, 2.0), highlight(1, 2, 0.5), highlight(5, 6, 1.0)], 1) == [highlight(0, 6, 3.5, 3)]


def test_a_long_highlight_keeps_the_window_with_the_most_energy() -> None:
    energy = flat_energy(100) * 0.01
    energy[round(40 * FRAME_RATE_HZ) : round(45 * FRAME_RATE_HZ)] = 1

    (kept,) = trimmed([highlight(10, 90, 7.0, 3)], energy, 5.0)

    assert kept.span.start_s == pytest.approx(40, abs=0.03)
    assert kept.span.duration_s == pytest.approx(5.0, abs=1e-9)
    assert kept.events == 3


def test_the_score_of_a_window_is_its_share_of_the_energy() -> None:
    (kept,) = trimmed([highlight(10, 90, 8.0)], flat_energy(100), 20.0)

    assert kept.score == pytest.approx(2.0, rel=0.01)


def test_what_is_left_of_a_long_highlight_gives_further_windows() -> None:
    energy = flat_energy(100) * 0.01
    energy[round(40 * FRAME_RATE_HZ) : round(45 * FRAME_RATE_HZ)] = 1
    energy[round(70 * FRAME_RATE_HZ) : round(75 * FRAME_RATE_HZ)] = 0.5

    kept = trimmed([highlight(10, 90)], energy, 5.0, gap_s=2.0, most=3)

    assert [round(each.span.start_s) for each in kept[1:]] == [40, 70]
    assert all(later.span.start_s - each.span.end_s >= 2.0 - 1e-6 for each, later in pairwise(kept))


def test_a_rest_that_is_shorter_than_a_window_gives_none() -> None:
    assert len(trimmed([highlight(0, 14)], flat_energy(100), 10.0, gap_s=2.0, most=9)) == 1


def test_of_equal_windows_the_earliest_is_kept() -> None:
    assert spans(tuple(trimmed([highlight(10, 90)], np.zeros(5000), 5.0))) == [(10, 15)]


def test_a_highlight_within_the_limit_is_left_alone() -> None:
    assert trimmed([highlight(10, 15)], flat_energy(100), 5.0) == [highlight(10, 15)]


def test_energy_that_ends_before_the_highlight_does_counts_as_nothing() -> None:
    (kept,) = trimmed([highlight(10, 90)], flat_energy(20), 5.0)

    assert kept.span.end_s <= 20 + 1e-6


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("chronological", ["a1", "a2", "a3", "b1", "b2"]),
        ("score", ["b1", "a2", "a3", "b2", "a1"]),
        ("hybrid", ["a2", "b1", "a3", "b2", "a1"]),
    ],
)
def test_highlights_of_several_videos_are_ordered(order: Order, expected: list[str]) -> None:
    named: dict[str, Placed] = {
        "a1": ("a.mp4", highlight(10, 12, 1.0)),
        "a2": ("a.mp4", highlight(20, 22, 8.0)),
        "a3": ("a.mp4", highlight(30, 32, 5.0)),
        "b1": ("b.mp4", highlight(5, 7, 9.0)),
        "b2": ("b.mp4", highlight(50, 52, 4.0)),
    }

    assert in_order(reversed(named.values()), order) == [named[name] for name in expected]


def test_equal_scores_fall_back_to_path_and_start() -> None:
    placed = [("b", highlight(1, 2)), ("a", highlight(5, 6)), ("a", highlight(1, 2))]

    assert in_order(placed, "score") == [placed[2], placed[1], placed[0]]


def test_the_budget_skips_what_would_overflow_and_goes_on() -> None:
    walk = [("v", highlight(0, 10)), ("v", highlight(20, 35)), ("v", highlight(40, 48))]

    kept, dropped = within_budget(walk, max_segments=5, max_duration_s=20)

    assert kept == [walk[0], walk[2]]
    assert dropped == [("v", replace(walk[1][1], dropped_by="duration limit"))]


def test_the_budget_stops_at_the_segment_limit() -> None:
    walk = [("v", highlight(start, start + 1)) for start in range(0, 10, 2)]

    kept, dropped = within_budget(walk, max_segments=2, max_duration_s=100)

    assert kept == walk[:2]
    assert {each.dropped_by for _, each in dropped} == {"segment limit"}


def test_two_windows_of_ten_seconds_fill_a_montage_of_twenty() -> None:
    walk = [("v", highlight(0.1, 0.1 + 10)), ("v", highlight(33.3, 33.3 + 10))]

    kept, _ = within_budget(walk, max_segments=5, max_duration_s=20)

    assert kept == walk


@pytest.mark.parametrize(("select", "starts"), [("best", [20, 30]), ("first", [10, 20])])
def test_a_full_budget_keeps_the_best_or_the_first_and_shows_them_in_order(select: str, starts: list[float]) -> None:
    placed = [("v", highlight(10, 12, 1.0)), ("v", highlight(20, 22, 3.0)), ("v", highlight(30, 32, 2.0))]

    choice = choose(placed, OutputSettings.model_validate({"max_segments": 2, "select": select}))

    assert [each.span.start_s for _, each in choice.kept] == starts


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
    assert result.duration_s == pytest.approx(58)


def test_what_a_full_budget_drops_is_listed_with_the_rule() -> None:
    result = plan([event(start, start + 4, start) for start in (10, 20, 30)], max_duration_s=9)

    assert spans(result.kept) == [(20, 24), (30, 34)]
    assert [(each.span.start_s, each.dropped_by) for each in result.dropped] == [(10, "duration limit")]


def test_a_montage_shorter_than_a_segment_limits_the_segment() -> None:
    result = plan([event(10, 40)], max_segment_duration_s=10, max_duration_s=4)

    assert result.duration_s == pytest.approx(4)


def test_candidates_that_a_rule_dropped_are_no_events() -> None:
    assert plan([replace(event(10, 12), dropped_by="tonal")]) == Plan((), ())


@pytest.mark.parametrize("events", [[], [event(700, 710)]], ids=["none", "after the end"])
def test_without_events_in_the_video_the_montage_is_empty(events: list[Candidate]) -> None:
    assert plan(events).kept == ()


def test_a_video_of_no_length_has_no_highlights() -> None:
    result = plan([event(0, 1)], duration_s=0.0)

    assert result.kept == ()
    assert [each.dropped_by for each in result.dropped] == ["too short"]
