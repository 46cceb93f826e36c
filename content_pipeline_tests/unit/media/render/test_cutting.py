"""Where to cut, on hand-made surveys: ticks are frames, 10 to the second."""

from __future__ import annotations

from fractions import Fraction

from content_pipeline.media.render.cutting import Boundary, boundaries, plan_copy, plan_smart
from content_pipeline.media.render.survey import Stamp, Survey
from content_pipeline.media.spans import Span


def _survey(*shown: int, keys: tuple[int, ...] = (0,)) -> Survey:
    stamps = tuple(Stamp(pts, pts in keys, pts in keys, False) for pts in shown)
    return Survey(stamps, Fraction(1, 10), origin_s=0.0, seek_s=0.0, timed=True, at_end=False)


REORDERED = _survey(0, 4, 2, 1, 3, 8, 6, 5, 7, 9, 10, 14, 12, 11, 13, 18, 16, 15, 17, keys=(0, 10))


def test_packets_can_only_end_where_nothing_shown_later_came_before() -> None:
    assert list(boundaries(_survey(0, 3, 1, 2, 4))) == [Boundary(1, 1), Boundary(4, 4), Boundary(5, 5)]


def test_a_copy_moves_out_to_the_keyframe_and_the_next_boundary() -> None:
    plan = plan_copy(REORDERED, Span(0.3, 0.6))
    assert plan is not None
    assert (plan.start, plan.end) == (0, 9)
    assert not plan.has_head
    assert not plan.has_tail


def test_a_copy_needs_a_clean_keyframe_before_the_span() -> None:
    assert plan_copy(_survey(5, 6, 7, 8, keys=()), Span(0.6, 0.8)) is None


def test_a_smart_cut_encodes_up_to_the_keyframe_and_copies_from_there() -> None:
    plan = plan_smart(REORDERED, Span(0.7, 1.5))
    assert (plan.start, plan.copy_start, plan.end) == (7, 10, 15)
    assert plan.has_head
    assert not plan.has_tail


def test_a_smart_cut_encodes_the_tail_where_no_boundary_is_near() -> None:
    plan = plan_smart(REORDERED, Span(1.0, 1.7))
    assert not plan.has_head
    assert (plan.copy_end, plan.end) == (15, 17)
    assert plan.has_tail


def test_a_smart_cut_takes_a_boundary_one_frame_away() -> None:
    plan = plan_smart(REORDERED, Span(1.0, 1.4))
    assert plan.end == 15
    assert not plan.has_tail


def test_a_span_without_a_keyframe_inside_is_encoded_whole() -> None:
    plan = plan_smart(REORDERED, Span(0.2, 0.8))
    assert (plan.start, plan.end) == (2, 8)
    assert plan.copy_from == plan.copy_to


def test_a_picture_that_stands_long_is_cut_off_at_the_planned_end() -> None:
    plan = plan_copy(_survey(0, 1, 2, 3, 30, 31), Span(0.1, 1.0))
    assert plan is not None
    assert plan.end == 10
