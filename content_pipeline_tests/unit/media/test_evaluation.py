from __future__ import annotations

import numpy as np
import pytest

from content_pipeline.media.curves import FRAME_RATE_HZ
from content_pipeline.media.detector import Candidate
from content_pipeline.media.evaluation import (
    NOTHING,
    best_seconds,
    clips_from_json,
    compare,
    fight_share,
    matches,
    merged_spans,
)
from content_pipeline.media.spans import Span


@pytest.mark.parametrize(
    ("event", "is_found"),
    [
        (Span(10, 20), True),
        (Span(10.9, 11.2), True),
        (Span(14, 17.1), True),
        (Span(14, 16.9), False),
        (Span(8.9, 10.5), False),
        (Span(20, 30), False),
    ],
    ids=["the same", "starts with it", "overlaps enough", "overlaps too little", "starts too early", "follows it"],
)
def test_a_fight_is_found_by_overlap_or_by_its_start(event: Span, is_found: bool) -> None:
    assert (matches([event], [Span(10, 20)]) == [0]) is is_found


def test_a_fight_is_found_once() -> None:
    assert matches([Span(10, 14), Span(14.5, 20)], [Span(10, 20)]) == [0, None]


def test_of_two_fights_an_event_finds_the_one_it_overlaps_more() -> None:
    assert matches([Span(10, 20)], [Span(9.5, 11), Span(10.5, 20)]) == [1]


def test_events_closer_than_the_gap_are_judged_as_one() -> None:
    agreement = compare([Span(10, 13), Span(15, 20)], [Span(10, 20)])

    assert (agreement.found, agreement.detected) == (1, 1)


def test_counts_and_seconds_make_precision_recall_and_f1() -> None:
    agreement = compare([Span(0, 4), Span(50, 52)], [Span(0, 4), Span(20, 24), Span(30, 34)])

    assert agreement.precision == pytest.approx(1 / 2)
    assert agreement.recall == pytest.approx(1 / 3)
    assert agreement.f1 == pytest.approx(2 / 5)
    assert agreement.time_f1 == pytest.approx(2 * 4 / (6 + 12))
    assert agreement.false_events == 1


def test_clips_are_judged_together_by_adding() -> None:
    total = sum([compare([Span(0, 4)], [Span(0, 4)]), compare([Span(0, 4)], [])], NOTHING)

    assert (total.found, total.detected, total.labelled) == (1, 2, 1)


def test_nothing_found_where_there_is_nothing_is_perfect() -> None:
    assert compare([], []).f1 == compare([], []).time_f1 == 1.0
    assert compare([Span(1, 2)], []).f1 == 0.0


def test_merging_spans_keeps_order_and_swallows_the_contained() -> None:
    assert merged_spans([Span(8, 9), Span(0, 5), Span(1, 2)], 2.0) == [Span(0, 5), Span(8, 9)]


def test_the_bare_montage_takes_the_best_events_until_time_is_up() -> None:
    energy = np.zeros(round(100 * FRAME_RATE_HZ))
    energy[round(60 * FRAME_RATE_HZ) : round(63 * FRAME_RATE_HZ)] = 1
    events = [Candidate(Span(10, 12), 1.0), Candidate(Span(50, 70), 2.0), Candidate(Span(20, 25), 3.0)]

    first, second = best_seconds(events, energy, budget_s=8)

    assert first == Span(20, 25)
    assert second.duration_s == pytest.approx(3)
    assert second.start_s == pytest.approx(60, abs=0.03)


@pytest.mark.parametrize(("montage", "share"), [([Span(0, 10)], 0.4), ([Span(0, 4)], 1.0), ([], None)])
def test_the_share_of_a_montage_that_is_a_fight(montage: list[Span], share: float | None) -> None:
    assert fight_share(montage, [Span(0, 3), Span(2, 4)]) == share


def test_labels_are_read_with_their_source() -> None:
    (clip,) = clips_from_json({"clips": [{"file": "a.mp4", "fights": [[1, 2]], "source": "level 1", "group": "real"}]})

    assert (clip.file, clip.fights, clip.source, clip.is_quiet) == ("a.mp4", (Span(1, 2),), "level 1", False)
