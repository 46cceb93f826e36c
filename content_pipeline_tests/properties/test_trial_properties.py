"""A trial picks exactly what a plan keeps, whatever the events and the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from content_pipeline.media.curves.model import FRAME_RATE_HZ, Curves
from content_pipeline.media.detection.detector import Candidate, CandidateTable
from content_pipeline.media.selection.highlights import DURATION_LIMIT, SEGMENT_LIMIT, MontageRules, plan_highlights
from content_pipeline.media.selection.threshold_trial import Trial, common
from content_pipeline.media.spans import Span
from content_pipeline.settings import Settings
from content_pipeline_tests.properties.test_highlights_properties import Case, cases


def as_table(candidates: Sequence[Candidate]) -> CandidateTable:
    ordered = sorted(candidates, key=lambda candidate: (candidate.span, -candidate.score))
    rules = tuple({candidate.dropped_by for candidate in ordered if candidate.dropped_by is not None})
    places = [
        len(rules) if candidate.dropped_by is None else rules.index(candidate.dropped_by) for candidate in ordered
    ]
    return CandidateTable(
        np.array([candidate.span.start_s for candidate in ordered]),
        np.array([candidate.span.end_s for candidate in ordered]),
        np.array([candidate.score for candidate in ordered]),
        np.array(places, np.intp),
        rules,
    )


@given(cases)
def test_candidates_as_columns_are_the_same_candidates(case: Case) -> None:
    assert sorted(as_table(case[0]).listed(), key=repr) == sorted(case[0], key=repr)


@given(cases)
def test_a_trial_shows_what_the_plan_keeps_and_knows_when_the_limits_left_something_out(case: Case) -> None:
    candidates, duration_s, seed, detection, processing, output = case
    # No sound, no event: none scores 0.
    events = [replace(candidate, score=max(candidate.score, 0.01)) for candidate in candidates]
    level = np.random.default_rng(seed).random(round(duration_s * FRAME_RATE_HZ)).astype(np.float32)
    settings = Settings(detection=detection, processing=processing, output=output)
    selected = Trial(Curves(level, level, level, level), duration_s, settings).select_from(as_table(events), detection)
    energy = level.astype("float64") ** 2
    plan = plan_highlights(events, energy, duration_s, MontageRules.of(detection, processing, output))
    assert selected.shown == tuple(sorted(highlight.span for highlight in plan.kept))
    if any(candidate.dropped_by in (DURATION_LIMIT, SEGMENT_LIMIT) for candidate in plan.dropped):
        assert selected.limited
    if not selected.limited:
        more = output.model_copy(update={"max_segments": output.max_segments + 1})
        rules = MontageRules.of(detection, processing, more)
        assert plan_highlights(events, energy, duration_s, rules).kept == plan.kept


spans = st.lists(st.tuples(st.floats(0.1, 20), st.floats(0.1, 20)), max_size=8).map(
    lambda steps: [
        Span(sum(sum(step) for step in steps[:index]) + gap, sum(sum(step) for step in steps[: index + 1]))
        for index, (gap, _) in enumerate(steps)
    ]
)


@given(spans, spans)
def test_what_is_common_is_counted_alike_from_both_sides(before: list[Span], after: list[Span]) -> None:
    assert common(before, after) == common(after, before)
    assert common(before, before) == len(before)
