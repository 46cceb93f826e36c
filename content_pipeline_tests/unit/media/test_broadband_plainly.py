"""The fast detector does what the plain one does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from content_pipeline.media.curves.model import Curves
from content_pipeline.media.detection.broadband import SURROUNDINGS_S, BroadbandEvidence, entering_db
from content_pipeline.media.detection.detector import detector_for
from content_pipeline.media.detection.rolling_stats import moving_mean
from content_pipeline.settings import DetectionSettings
from content_pipeline_tests.helpers import plain_broadband as plain
from content_pipeline_tests.helpers.synthetic_curves import Burst, curves_with, frame


def game(duration_s: float, seed: int) -> Curves:
    """Fights, doors, music and a muted stretch, wherever chance puts them."""
    random = np.random.default_rng(seed)

    def bursts(count: int, longest_s: float) -> list[Burst]:
        starts = random.uniform(0, duration_s - 5, count).tolist()
        return [(start, start + random.uniform(0.1, longest_s), random.uniform(0, 20)) for start in starts]

    curves = curves_with(duration_s, noise=bursts(25, 4), tones=bursts(10, 5), seed=seed)
    muted = slice(frame(duration_s / 3), frame(duration_s / 3 + 20))
    for curve in vars(curves).values():
        curve[muted] = 0
    return curves


GAMES = [game(60, 1), game(200, 2), game(400, 3)]


@pytest.mark.parametrize("curves", GAMES, ids=["a minute", "minutes", "more"])
@pytest.mark.parametrize("adaptive", [True, False])
def test_evidence_is_what_it_plainly_is(curves: Curves, adaptive: bool) -> None:
    fast = BroadbandEvidence.of(curves, adaptive)
    slow = plain.plain_evidence(curves, SURROUNDINGS_S if adaptive else math.inf)

    assert fast.strength == pytest.approx(slow.strength, abs=1e-3)
    assert fast.contrast == pytest.approx(slow.contrast, abs=1e-3)
    audible = curves.broadband > 0
    assert fast.sharp[audible] == pytest.approx(slow.sharp[audible], abs=1e-3)


@pytest.mark.parametrize("curves", GAMES, ids=["a minute", "minutes", "more"])
@pytest.mark.parametrize("threshold", [0.05, 0.08, 0.1, 0.13])
def test_decisions_are_what_they_plainly_are(curves: Curves, threshold: float) -> None:
    settings = DetectionSettings(rms_threshold=threshold)
    evidence = BroadbandEvidence.of(curves, adaptive=True)

    fast = detector_for(settings).detect(curves).candidates
    slow = plain.plain_candidates(evidence, entering_db(settings), settings.min_event_duration_s)

    assert len(fast) > 2
    assert [(one.span, one.dropped_by) for one in fast] == [(one.span, one.dropped_by) for one in slow]
    assert [one.score for one in fast] == pytest.approx([one.score for one in slow])


@pytest.mark.parametrize("length", [1, 2, 5, 12, 13, 14, 100, 8191, 8192, 8193, 20_000])
@pytest.mark.parametrize("width", [1, 3, 13])
def test_a_moving_mean_is_the_mean_of_the_frames_around(length: int, width: int) -> None:
    values = np.random.default_rng(length).uniform(0, 1, length).astype(np.float32)

    assert moving_mean(values, width) == pytest.approx(plain.moving_mean(values.astype(np.float64), width), rel=1e-5)


def test_a_moving_mean_does_not_lose_the_quiet_beside_the_loud() -> None:
    values = np.full(50_000, 1e-9, np.float32)
    values[:25_000] = 1.0

    assert moving_mean(values, 13)[25_010:] == pytest.approx(np.full(24_990, 1e-9), rel=1e-5)
