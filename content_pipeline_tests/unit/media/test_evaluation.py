from __future__ import annotations

import numpy as np
import pytest

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Candidate
from content_pipeline.media.detection.evaluation import (
    NOTHING,
    Judgement,
    at_level,
    best_seconds,
    compare,
    fight_share,
    held_out,
    judge,
    matches,
    merged_spans,
    verdict,
)
from content_pipeline.media.detection.labels import LabelledClip
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings
from content_pipeline_tests.helpers.synthetic_curves import curves_with, silence


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

    assert (agreement.matched, agreement.detected) == (1, 1)


def test_counts_and_seconds_make_precision_recall_and_f1() -> None:
    agreement = compare([Span(0, 4), Span(50, 52)], [Span(0, 4), Span(20, 24), Span(30, 34)])

    assert agreement.precision == pytest.approx(1 / 2)
    assert agreement.recall == pytest.approx(1 / 3)
    assert agreement.f1 == pytest.approx(2 / 5)
    assert agreement.time_f1 == pytest.approx(2 * 4 / (6 + 12))


def test_clips_are_judged_together_by_adding() -> None:
    total = sum([compare([Span(0, 4)], [Span(0, 4)]), compare([Span(0, 4)], [])], NOTHING)

    assert (total.matched, total.detected, total.labelled) == (1, 2, 1)


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


@pytest.mark.parametrize(("montage", "share"), [([Span(0, 10)], 0.4), ([Span(0, 4)], 1.0), ([], 0.0)])
def test_the_share_of_a_montage_that_is_a_fight(montage: list[Span], share: float) -> None:
    assert fight_share(montage, [Span(0, 3), Span(2, 4)]) == share


def test_a_montage_is_not_filled_up_with_less_than_a_frame() -> None:
    events = [Candidate(Span(10, 18), 2.0), Candidate(Span(50, 70), 1.0)]

    assert best_seconds(events, np.ones(round(100 * FRAME_RATE_HZ)), budget_s=8 + 1e-9) == [Span(10, 18)]


FOUND = LabelledClip("found.mp4", (Span(12, 16), Span(30, 34)), "level 1")
MISSED = LabelledClip("missed.mp4", (Span(12, 16),), "level 2")
QUIET = LabelledClip("quiet.mp4", (), "level 3")
CURVES = {
    FOUND: curves_with(60, noise=[(12, 16, 12.0), (30, 34, 12.0)]),
    MISSED: silence(60),
    QUIET: curves_with(60, noise=[(20, 24, 12.0)]),
}


def judged(*clips: LabelledClip) -> Judgement:
    return Judgement(tuple(judge(clip, CURVES[clip], DetectionSettings()) for clip in clips))


def test_a_clip_is_judged_by_its_events_and_by_the_montage_they_make() -> None:
    (found,) = judged(FOUND).verdicts

    assert (found.agreement.matched, found.agreement.detected) == (2, 2)
    assert found.montage_share == pytest.approx(1.0, abs=0.02)


def test_an_empty_montage_of_a_clip_with_fights_counts_as_none_of_it() -> None:
    both = judged(FOUND, MISSED)

    assert both.verdicts[1].montage_share == 0.0
    assert both.montage_share == pytest.approx(0.5, abs=0.02)
    assert both.empty_montages == 1


def test_events_of_quiet_clips_are_false_and_spoil_precision_but_no_montage() -> None:
    both = judged(FOUND, QUIET)

    assert both.false_events_quiet == 1
    assert both.agreement.precision == pytest.approx(2 / 3)
    assert both.montage_share == judged(FOUND).montage_share
    assert judged(QUIET).montage_share is None
    assert judged(QUIET).empty_montages == 0
    assert judged(FOUND).false_events_quiet == 0


def test_finding_nothing_is_not_precise() -> None:
    assert judged(MISSED).agreement.precision == 0.0


def test_another_level_is_the_same_curve_scaled() -> None:
    turned = at_level(CURVES[FOUND], -20.0)

    assert turned.rms == pytest.approx(CURVES[FOUND].rms / 10)
    assert turned.broadband == pytest.approx(CURVES[FOUND].broadband / 10)
    assert turned.percussive == pytest.approx(CURVES[FOUND].percussive / 10)


def test_tuning_is_judged_on_sources_it_has_not_seen() -> None:
    def clip(name: str, source: str) -> LabelledClip:
        return LabelledClip(name, (Span(10, 20),), source)

    def judgement(**is_found: bool) -> Judgement:
        events = {True: [Candidate(Span(10, 20), 1.0)], False: [Candidate(Span(40, 50), 1.0)]}
        clips = [clip("a", "one"), clip("b", "one"), clip("c", "two")]
        energy = np.ones(round(60 * FRAME_RATE_HZ))
        return Judgement(tuple(verdict(each, events[is_found[each.file]], energy) for each in clips))

    tried = {1.0: judgement(a=True, b=True, c=False), 2.0: judgement(a=False, b=False, c=True)}

    # What suits source one is found on source two only, and the other way round.
    assert held_out(tried).agreement.matched == 0
    tried[3.0] = judgement(a=True, b=True, c=True)
    assert held_out({3.0: tried[3.0]}).agreement.matched == 3
    assert [verdict.clip.file for verdict in held_out(tried).verdicts] == ["a", "b", "c"]
