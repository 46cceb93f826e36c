"""The table of thresholds, and the value that comes nearest to a target."""

from __future__ import annotations

from typing import Any

import pytest

from content_pipeline.media.selection.threshold_trial import Selected, Trial, common, compared
from content_pipeline.media.selection.tuning import (
    Picked,
    Row,
    Target,
    finer_values,
    is_in_reach,
    is_met,
    makes_no_difference,
    nearest,
    no_difference,
    remarks,
    target_of,
    unless_as_good,
)
from content_pipeline.media.spans import Span
from content_pipeline.settings import CalibrationSettings, OutputSettings, Settings
from content_pipeline_tests.helpers.synthetic_curves import curves_with

FIGHTS = [(10 + 20 * number, 13 + 20 * number, 12.0 + 2 * number) for number in range(10)]


def row(value: float, seconds: float, moments: int = 0, videos: int = 1, limited: int = 0) -> Row:
    picked = Picked(moments=moments, clips=1 if seconds else 0, seconds=seconds, limited=limited)
    return Row(value, picked, videos, hours=1.0)


def taken(rows: list[Row], target: Target, now: float) -> float:
    """The value taken where another counts now."""
    current = next(row for row in rows if row.value == now)
    return unless_as_good(current, nearest(rows, target), rows, target).value


def montage(amount: float) -> Target:
    return Target("montage_s", amount)


def shown(*spans: tuple[float, float]) -> Selected:
    return Selected(len(spans), tuple(Span(*span) for span in spans), False)


def test_a_higher_threshold_never_finds_more_time() -> None:
    settings = Settings(output=OutputSettings(max_duration_s=1e6, max_segments=10_000))
    trial = Trial(curves_with(220, noise=FIGHTS), 220.0, settings)
    lengths = [
        sum(span.duration_s for span in trial.select(_with_sensitivity(settings, value)).shown)
        for value in (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def _with_sensitivity(settings: Settings, value: float) -> Any:
    return settings.detection.model_copy(update={"sensitivity": value})


@pytest.mark.parametrize(("amount", "value"), [(60, 2.0), (55, 2.0), (42, 3.0), (40, 3.0), (25, 3.0)])
def test_the_value_nearest_to_the_wish_is_taken(amount: float, value: float) -> None:
    assert nearest([row(1, 80), row(2, 60), row(3, 40), row(4, 0)], montage(amount)).value == value


def test_what_cannot_be_reached_gives_the_most_there_is_and_says_so() -> None:
    rows = [row(1, 30), row(2, 20)]
    chosen = nearest(rows, montage(60))
    assert chosen.value == 1
    assert remarks(rows, chosen, montage(60), Settings()) == [
        "no value gives more than 30.0 s; raise processing.max_segment_duration_s (10)"
    ]
    assert not is_in_reach(rows, montage(60))
    limited = [row(1, 30, limited=1), row(2, 20)]
    (note,) = remarks(limited, limited[0], montage(60), Settings())
    assert note == "no value gives more than 30.0 s; raise output.max_duration_s (90) and output.max_segments (12)"


def test_where_more_moments_cannot_be_found_the_merging_is_named() -> None:
    rows = [row(1, 30, moments=4), row(2, 20, moments=6)]
    per_hour = Target("per_hour", 100)
    assert remarks(rows, nearest(rows, per_hour), per_hour, Settings()) == [
        "no value gives more than 6.0 per hour; lower processing.merge_gap_s (2)"
    ]


def test_what_even_the_strictest_value_exceeds_gives_the_least_there_is_and_says_so() -> None:
    rows = [row(1, 30), row(2, 20)]
    chosen = nearest(rows, montage(5))
    assert chosen.value == 2
    (note,) = remarks(rows, chosen, montage(5), Settings())
    assert note.startswith(
        "even the strictest value, 2 (20.0 s), gives more; try stricter values, or lower output.max_"
    )
    assert not is_in_reach(rows, montage(5))


@pytest.mark.parametrize("amount", [15, 1])
def test_a_value_that_picks_nothing_is_not_taken_while_another_picks_something(amount: float) -> None:
    rows = [row(6, 39), row(7, 0)]
    chosen = nearest(rows, montage(amount))
    assert chosen.value == taken(rows, montage(amount), now=7) == 6
    assert remarks(rows, chosen, montage(amount), Settings()) == [
        "there is no closer value between 6 (39.0 s) and 7 (0.0 s)"
    ]


def test_where_every_value_picks_nothing_it_is_said() -> None:
    rows = [row(6, 0), row(7, 0)]
    assert taken(rows, montage(15), now=6) == 6
    chosen = rows[0]
    assert remarks(rows, chosen, montage(15), Settings())[0] == "6 picks nothing in any video"
    assert remarks(rows, chosen, None, Settings()) == ["6 picks nothing in any video"]


def test_the_value_that_counts_now_is_kept_when_another_gives_hardly_anything_else() -> None:
    rows = [row(1.5, 30.03), row(2, 30.02), row(2.5, 30.0), row(4, 20)]
    assert nearest(rows, montage(60)).value == 1.5
    assert taken(rows, montage(60), now=2.5) == 2.5
    assert taken(rows, montage(60), now=4) == 1.5


def test_the_value_that_counts_now_is_not_kept_when_it_misses_a_wish_that_another_meets() -> None:
    rows = [row(1, 62.3), row(2, 61.1)]
    assert taken(rows, montage(60), now=1) == 2


def test_the_same_number_of_moments_on_the_far_side_of_the_many_is_not_the_same() -> None:
    rows = [row(0.5, 3000, moments=12), row(1, 900, moments=40), row(2, 100, moments=12), row(3, 20, moments=4)]
    assert taken(rows, Target("per_hour", 12), now=0.5) == 2


def test_values_that_all_pick_the_same_make_no_difference_and_the_other_setting_is_named() -> None:
    assert makes_no_difference([row(1, 30), row(2, 30)])
    assert not makes_no_difference([row(1, 30), row(2, 29)])
    assert not makes_no_difference([row(1, 30)])
    assert no_difference("sensitivity").endswith("`--setting rms_threshold`")
    assert no_difference("rms_threshold").endswith("`--setting sensitivity`")


def test_moments_that_all_become_one_do_not_meet_a_wish_for_few() -> None:
    per_hour = Target("per_hour", 10)
    rows = [row(0.5, 3000, moments=10), row(1, 900, moments=40), row(2, 100, moments=12), row(3, 20, moments=4)]
    assert nearest(rows, per_hour).value == 2


def test_the_limits_of_the_montage_are_named_when_they_decide() -> None:
    rows = [row(1, 900, videos=10, limited=9), row(2, 800, videos=10, limited=6)]
    (note,) = remarks(rows, nearest(rows, montage(90)), montage(90), Settings())
    limits = "output.max_duration_s (90) and output.max_segments (12)"
    assert note == f"in 9 of 10 videos {limits} decide the length, not the threshold"


def test_values_between_two_of_the_table_lead_to_the_wish() -> None:
    def seconds(value: float) -> float:
        return 100 - 10 * value

    rows = [row(value, seconds(value)) for value in (1, 2, 4, 8)]
    target = montage(47)
    assert nearest(rows, target).value == 4
    finer = finer_values(rows, target)
    assert finer and all(4 < value < 8 for value in finer)
    rows += [row(value, seconds(value)) for value in finer]
    between = finer_values(rows, target)
    assert between and max(between) - min(between) < 0.5
    assert is_met(nearest([*rows, *(row(value, seconds(value)) for value in between)], target), target)


@pytest.mark.parametrize("amount", [90, 60.5, 200, 1])
def test_a_wish_that_the_table_meets_or_cannot_meet_asks_for_no_values_between(amount: float) -> None:
    assert finer_values([row(1, 90), row(4, 60)], montage(amount)) == []


def test_a_highlight_that_shares_more_than_half_with_one_of_before_is_the_same() -> None:
    before = shown((10, 20), (40, 50), (70, 80))
    after = shown((12, 22), (46, 56), (100, 110))
    picked = compared(before, after)
    assert common(before.shown, after.shown) == 1
    assert (picked.came, picked.went, picked.clips, picked.seconds) == (2, 2, 3, 30)


def test_a_recording_without_highlights_counts_in_the_average() -> None:
    assert row(1, 60, videos=3).montage_s == 20
    assert Row(1, Picked(), 0, 0.0).per_hour == 0


def test_a_wish_is_one_of_two_or_none() -> None:
    assert target_of(CalibrationSettings()) is None
    assert target_of(CalibrationSettings(montage_s=60)) == Target("montage_s", 60)
    assert target_of(CalibrationSettings(per_hour=6)) == Target("per_hour", 6)
