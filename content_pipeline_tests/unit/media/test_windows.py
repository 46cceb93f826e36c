from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.selection.windows import EventTimes, Windows, energy_until
from content_pipeline.media.spans import Span


def energy_in(span: Span, energy: np.ndarray) -> float:
    """Frame by frame: how much of each lies in the span, times what it holds."""
    edges = np.arange(len(energy) + 1) / FRAME_RATE_HZ
    inside = np.minimum(edges[1:], span.end_s) - np.maximum(edges[:-1], span.start_s)
    return float((np.clip(inside, 0, None) * FRAME_RATE_HZ * energy).sum())


@given(
    seed=st.integers(0, 1000),
    start_s=st.floats(0, 20),
    length_s=st.floats(3, 40),
    limit_s=st.floats(0.01, 3),
    recorded_s=st.floats(0.1, 40),
)
def test_no_window_holds_more_than_the_richest(
    seed: int, start_s: float, length_s: float, limit_s: float, recorded_s: float
) -> None:
    energy = np.random.default_rng(seed).random(round(recorded_s * FRAME_RATE_HZ))
    windows, span = Windows(energy_until(energy), limit_s), Span(start_s, start_s + length_s)

    found = windows.richest(span)

    assert start_s <= found.start_s <= found.end_s <= span.end_s
    assert found.duration_s == pytest.approx(limit_s)
    assert windows.energy_of(found) == pytest.approx(energy_in(found, energy), abs=1e-6)
    others = np.linspace(start_s, span.end_s - limit_s, 50).tolist()
    best = max(energy_in(Span(other, other + limit_s), energy) for other in others)
    # Between frames a window may hold a little more than at any frame: less than one frame's worth.
    assert windows.energy_of(found) >= best - 1.0


def test_the_richest_windows_lie_apart_and_in_order() -> None:
    energy = np.zeros(round(100 * FRAME_RATE_HZ))
    for start_s, level in ((20, 1.0), (50, 3.0), (80, 2.0)):
        energy[round(start_s * FRAME_RATE_HZ) : round((start_s + 5) * FRAME_RATE_HZ)] = level

    no_events = EventTimes(np.empty(0), np.empty(0), before_s=0.0, after_s=0.0, least_s=0.1)
    pieces = Windows(energy_until(energy), 5.0, gap_s=2.0).pieces(Span(0, 100), no_events, most=2)

    assert [window.start_s for window in pieces] == pytest.approx([50, 80], abs=0.05)
