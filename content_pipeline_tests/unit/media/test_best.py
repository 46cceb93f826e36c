"""What makes the best-of of a library: fair between recordings, within its bounds, the same every time."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_pipeline.media.selection.best_of_selection import BestOf, Contender, Offer, alternating, best_of, standings
from content_pipeline.media.selection.highlights import Highlight
from content_pipeline.media.spans import Span
from content_pipeline.settings import BestOfSettings

ORDINARY = (0.5, 0.8, 1.0, 1.0, 1.2, 1.5, 2.0, 3.0)


def offer(key: str, *scores: float, candidates: tuple[float, ...] = ORDINARY, length_s: float = 5.0) -> Offer:
    """A video with a highlight of each score, one every twenty seconds."""
    highlights = tuple(
        Highlight(Span(20.0 * number, 20.0 * number + length_s), score) for number, score in enumerate(scores)
    )
    return Offer(key, highlights, (*candidates, *scores))


def louder(video: Offer, key: str, factor: float) -> Offer:
    return Offer(
        key,
        tuple(Highlight(each.span, each.score * factor) for each in video.highlights),
        tuple(score * factor for score in video.candidate_scores),
    )


def shown(chosen: BestOf) -> list[tuple[str, float]]:
    return [(one.video_key, one.span.start_s) for one in chosen.kept]


def top(video: Offer) -> float:
    return max(one.standing for one in standings(video))


def test_a_loud_recording_stands_no_higher_than_the_same_one_recorded_quietly() -> None:
    quiet = offer("quiet", 40, 12)
    loud = louder(quiet, "loud", 1000)
    assert [one.standing for one in standings(loud)] == [one.standing for one in standings(quiet)]
    # Two halves of the best-of, and not all of it from the loud one.
    assert shown(best_of([quiet, loud], BestOfSettings(max_segments=2))) == [("loud", 0), ("quiet", 0)]


def test_a_video_with_a_single_event_does_not_win_by_being_alone() -> None:
    lively = offer("lively", 40, 12)
    for lonely in (offer("lonely", 0.3, candidates=()), offer("lonely", 500, candidates=())):
        assert top(lonely) == 0
        assert shown(best_of([lonely, lively], BestOfSettings(max_segments=1))) == [("lively", 0)]


@pytest.mark.parametrize("others", [(0.1,), (0.1, 0.1), (0.001, 0.001), (0.1, 0.1, 0.1, 0.1)])
def test_a_weak_event_among_few_and_weaker_candidates_does_not_win(others: tuple[float, ...]) -> None:
    assert 0 < top(offer("weak", 0.4, candidates=others)) < top(offer("lively", 40))


def test_among_candidates_that_are_all_alike_a_little_more_is_no_peak() -> None:
    assert top(offer("even", 1.1, candidates=(1.0,) * 50)) < top(offer("lively", 12))


def test_what_stands_further_out_of_its_own_recording_comes_first() -> None:
    videos = [offer("a", 6), offer("b", 40), offer("c", 15)]
    assert [key for key, _ in shown(best_of(videos, BestOfSettings()))] == ["b", "c", "a"]


def test_the_clips_can_be_shown_video_by_video() -> None:
    videos = [offer("b", 6, 40), offer("a", 8, 15)]
    chosen = best_of(videos, BestOfSettings(order="chronological"))
    assert shown(chosen) == [("a", 0), ("a", 20), ("b", 0), ("b", 20)]


def test_no_video_gets_more_than_its_share_and_the_others_follow() -> None:
    videos = [offer("great", 90, 80, 70, 60), offer("fair", 5)]
    chosen = best_of(videos, BestOfSettings(max_per_video=2))
    assert shown(chosen) == [("great", 0), ("great", 20), ("fair", 0)]
    assert [(one.span.start_s, one.dropped_by) for one in chosen.dropped] == [(40, "video limit"), (60, "video limit")]


def test_what_does_not_fit_is_passed_over_for_what_does() -> None:
    videos = [offer("a", 40, length_s=9), offer("b", 30, length_s=9), offer("c", 20, length_s=1)]
    chosen = best_of(videos, BestOfSettings(max_duration_s=10))
    assert [key for key, _ in shown(chosen)] == ["a", "c"]
    assert [(one.video_key, one.dropped_by) for one in chosen.dropped] == [("b", "duration limit")]


def test_a_highlight_without_room_takes_none_of_its_videos_share() -> None:
    long = Offer("a", (Highlight(Span(0, 60), 90), Highlight(Span(80, 85), 50)), (1.0, 2.0, 50, 90))
    assert shown(best_of([long], BestOfSettings(max_duration_s=10, max_per_video=1))) == [("a", 80)]


def test_equals_are_told_apart_by_key_and_start() -> None:
    videos = [offer("b", 9, 9), offer("a", 9, 9)]
    assert shown(best_of(videos, BestOfSettings())) == [("a", 0), ("a", 20), ("b", 0), ("b", 20)]


@pytest.mark.parametrize("videos", [[], [Offer("a", (), ())], [Offer("a", (), ORDINARY)]])
def test_nothing_to_choose_from_is_an_empty_choice(videos: list[Offer]) -> None:
    assert best_of(videos, BestOfSettings()) == BestOf((), ())


def test_highlights_of_no_score_and_no_candidates_are_no_trouble() -> None:
    assert [one.standing for one in standings(Offer("a", (Highlight(Span(0, 1), 0.0),), ()))] == [0.0]
    assert top(offer("a", 0.0)) < 0


# --- whatever the library

scores = st.floats(0, 1e6)
libraries = st.lists(
    st.builds(
        lambda marks, candidates: (
            tuple(Highlight(Span(30.0 * number, 30.0 * number + length), score) for number, (length, score) in marks),
            tuple(candidates),
        ),
        st.lists(st.tuples(st.floats(0.05, 25), scores), max_size=5).map(lambda found: list(enumerate(found))),
        st.lists(scores, max_size=12),
    ),
    max_size=6,
).map(lambda found: [Offer(f"video-{number}", *each) for number, each in enumerate(found)])
bounds = st.builds(
    BestOfSettings,
    max_duration_s=st.floats(0.1, 100),
    max_segments=st.integers(1, 8),
    max_per_video=st.integers(1, 3),
    order=st.sampled_from(["score", "chronological", "hybrid"]),
)


@given(libraries, bounds)
def test_every_bound_holds(library: list[Offer], settings: BestOfSettings) -> None:
    chosen = best_of(library, settings)
    assert len(chosen.kept) <= settings.max_segments
    assert sum(contender.span.duration_s for contender in chosen.kept) <= settings.max_duration_s + 1e-5
    assert max(Counter(one.video_key for one in chosen.kept).values(), default=0) <= settings.max_per_video


@given(libraries, bounds)
def test_every_highlight_is_kept_or_dropped_by_a_rule(library: list[Offer], settings: BestOfSettings) -> None:
    chosen = best_of(library, settings)
    assert all(one.dropped_by is None for one in chosen.kept)
    assert all(one.dropped_by is not None for one in chosen.dropped)
    offered = Counter((each.video_key, one.span) for each in library for one in each.highlights)
    assert Counter((one.video_key, one.span) for one in (*chosen.kept, *chosen.dropped)) == offered


@given(libraries, bounds)
def test_a_segment_limit_never_drops_what_stands_higher_than_what_was_kept(
    library: list[Offer], settings: BestOfSettings
) -> None:
    chosen = best_of(library, settings)
    lowest = min((one.standing for one in chosen.kept), default=0.0)
    assert all(one.standing <= lowest for one in chosen.dropped if one.dropped_by == "segment limit")


@given(libraries, bounds, st.randoms())
def test_the_same_library_gives_the_same_best_of_in_whatever_order_it_is_listed(
    library: list[Offer], settings: BestOfSettings, random: Any
) -> None:
    shuffled = [Offer(each.video_key, _shuffled(each.highlights, random), each.candidate_scores) for each in library]
    random.shuffle(shuffled)
    assert repr(best_of(shuffled, settings)) == repr(best_of(library, settings))


@given(libraries)
def test_adding_a_video_changes_no_other_ones_standing(library: list[Offer]) -> None:
    def all_standings(offers: list[Offer]) -> dict[tuple[str, Span], float]:
        chosen = best_of(offers, BestOfSettings())
        return {(one.video_key, one.span): one.standing for one in (*chosen.kept, *chosen.dropped)}

    with_all, with_fewer = all_standings(library), all_standings(library[:-1])
    assert with_fewer.items() <= with_all.items()


def _shuffled(items: tuple[Highlight, ...], random: Any) -> tuple[Highlight, ...]:
    mixed = list(items)
    random.shuffle(mixed)
    return tuple(mixed)


contender_lists = st.lists(
    st.builds(
        lambda key, start, standing: Contender(key, Span(start, start + 1), 1.0, standing),
        st.sampled_from("abcd"),
        st.integers(0, 99),
        st.integers(-3, 9),
    ),
    max_size=12,
    unique_by=lambda contender: (contender.video_key, contender.span),
)


@given(contender_lists)
def test_hybrid_never_shows_two_clips_of_a_video_in_a_row_while_that_can_be_helped(contenders: list[Contender]) -> None:
    ordered = alternating(contenders)
    keys = [contender.video_key for contender in ordered]
    in_a_row = sum(first == second for first, second in pairwise(keys))
    commonest = max(Counter(keys).values(), default=0)
    assert in_a_row == max(0, commonest - (len(keys) - commonest) - 1)
    assert sorted(ordered, key=repr) == sorted(contenders, key=repr)


def test_hybrid_begins_with_the_strongest_and_goes_on_with_the_strongest_of_another_video() -> None:
    strong, weak = offer("strong", 90, 80, 70), offer("weak", 20, 10)
    by_score = best_of([strong, weak], BestOfSettings(max_per_video=3))
    hybrid = best_of([strong, weak], BestOfSettings(max_per_video=3, order="hybrid"))
    assert [contender.video_key for contender in by_score.kept] == ["strong", "strong", "strong", "weak", "weak"]
    assert [contender.video_key for contender in hybrid.kept] == ["strong", "weak", "strong", "weak", "strong"]
    assert hybrid.kept[0] == by_score.kept[0]
