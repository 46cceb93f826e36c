"""Curves made to order: a steady bed of sound, with bursts of noise or of tones on top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from content_pipeline.media.curves.model import FRAME_RATE_HZ, Curves

Burst = tuple[float, float, float]  # start and end in seconds, decibels over the bed


def frame(time_s: float) -> int:
    return round(time_s * FRAME_RATE_HZ)


def curves_with(
    duration_s: float,
    noise: Sequence[Burst] = (),
    tones: Sequence[Burst] = (),
    bed_db: float = -40.0,
    tonal_share: float = 0.8,
    seed: int = 1,
    punch_db: float = -7.0,
) -> Curves:
    """A bed that is mostly tonal (music, hum), as game sound is; noise and tones add their own power.

    Of what is noise, so much is punch: -7 dB for shots, -10 dB for a steady hiss."""
    count = frame(duration_s)
    bed = np.full(count, 10 ** (bed_db / 10)) * np.random.default_rng(seed).uniform(0.8, 1.25, count)
    broadband, whole = bed * (1 - tonal_share), bed.copy()
    for start_s, end_s, over_db in noise:
        added = 10 ** ((bed_db + over_db) / 10)
        broadband[frame(start_s) : frame(end_s)] += added
        whole[frame(start_s) : frame(end_s)] += added
    for start_s, end_s, over_db in tones:
        whole[frame(start_s) : frame(end_s)] += 10 ** ((bed_db + over_db) / 10)
        broadband[frame(start_s) : frame(end_s)] += 0.1 * 10 ** ((bed_db + over_db) / 10)
    level = np.sqrt(broadband).astype(np.float32)
    punch = level * np.float32(10 ** (punch_db / 20))
    return Curves(percussive=level, rms=np.sqrt(whole).astype(np.float32), broadband=level, punch=punch)


def louder(curves: Curves, gain_db: float) -> Curves:
    gain = np.float32(10 ** (gain_db / 20))
    return curves.each(lambda curve: curve * gain)


def silence(duration_s: float) -> Curves:
    return constant(duration_s, 0.0)


def constant(duration_s: float, level: float) -> Curves:
    curve = np.full(frame(duration_s), level, np.float32)
    return Curves(*(curve.copy() for _ in range(4)))


def from_percussive(values: Sequence[float]) -> Curves:
    curve = np.asarray(values, np.float32)
    return Curves(curve, curve, curve, curve)
