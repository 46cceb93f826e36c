from __future__ import annotations

import numpy as np
import pytest

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Detection, detector_for
from content_pipeline.settings import DetectionSettings
from content_pipeline_tests.helpers.synthetic_curves import from_percussive, silence


def detect(values: list[float], **settings: object) -> Detection:
    chosen = DetectionSettings.model_validate({"preset": "classic", "adaptive_threshold": False, **settings})
    return detector_for(chosen).detect(from_percussive(values))


def frames_of(detection: Detection) -> list[tuple[int, int]]:
    return [
        (round(event.span.start_s * FRAME_RATE_HZ), round(event.span.end_s * FRAME_RATE_HZ))
        for event in detection.events
    ]


def test_an_event_is_a_run_of_frames_above_the_threshold_and_its_score_is_the_peak() -> None:
    detection = detect([0.0] * 10 + [0.2, 0.5, 0.3, 0.2, 0.2, 0.2] + [0.0] * 10)

    assert frames_of(detection) == [(10, 16)]
    assert detection.events[0].score == pytest.approx(0.5)


def test_a_frame_exactly_at_the_threshold_is_not_above_it() -> None:
    assert detect([0.25] * 20, rms_threshold=0.25).candidates == ()


def test_frame_i_lies_at_i_times_512_over_22050_seconds() -> None:
    detection = detect([0.0] * 100 + [0.2] * 50)

    assert detection.events[0].span.start_s == pytest.approx(100 * 512 / 22050)
    assert detection.events[0].span.end_s == pytest.approx(150 * 512 / 22050)


@pytest.mark.parametrize(("frames", "dropped_by"), [(4, "too short"), (5, None)])
def test_a_run_shorter_than_the_minimum_is_dropped_and_says_so(frames: int, dropped_by: str | None) -> None:
    (candidate,) = detect([0.0] * 5 + [0.2] * frames + [0.0] * 5, min_event_duration_s=0.1).candidates

    assert candidate.dropped_by == dropped_by


def test_runs_that_touch_either_end_of_the_recording_count() -> None:
    assert frames_of(detect([0.2] * 6 + [0.0] * 6 + [0.2] * 6)) == [(0, 6), (12, 18)]


def test_adaptive_raises_the_threshold_to_the_mean_and_so_many_deviations() -> None:
    values = [0.05, 0.25] * 50
    level = np.asarray(values, np.float32)

    detection = detect(values, adaptive_threshold=True, sensitivity=0.5)

    expected = level.mean(dtype=np.float64) + 0.5 * level.std(dtype=np.float64)
    assert detection.threshold == pytest.approx(np.full(100, expected), rel=1e-6)


def test_adaptive_never_goes_under_the_fixed_threshold() -> None:
    detection = detect([0.001] * 100, adaptive_threshold=True, rms_threshold=0.1)

    assert detection.threshold == pytest.approx(np.full(100, 0.1))
    assert detection.events == ()


def test_the_plot_gets_the_curve_and_one_threshold_in_rms() -> None:
    detection = detect([0.0] * 10 + [0.2] * 10)

    assert detection.unit == "RMS"
    assert len(detection.level) == len(detection.threshold) == 20


@pytest.mark.parametrize("duration_s", [0.0, 10.0])
def test_silence_and_nothing_have_no_events(duration_s: float) -> None:
    detector = detector_for(DetectionSettings(preset="classic"))

    assert detector.detect(silence(duration_s)).candidates == ()
