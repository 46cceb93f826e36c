"""What a recording sounds like around each frame: its floor and its loudness, over a rolling window.

Evaluated every few seconds and joined by straight lines, so that twelve hours take a fraction of a second.
Frames that are not heard (silence, a pause in the recording) do not count: a muted minute must not make
the ordinary sound after it an event. An infinite window is the whole recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves import FRAME_RATE_HZ

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Frames = NDArray[np.float64]
    Mask = NDArray[np.bool_]

EVERY_S = 10.0
# A percentile over 90 s needs no more than five values a second.
DECIMATION = 8


def rolling_percentile(values: Frames, heard: Mask, window_s: float, percent: float) -> Frames:
    """The percentile of the heard values around each frame; NaN everywhere if nothing is heard."""
    sampled = np.where(heard, values, np.inf)[::DECIMATION].astype(np.float32)
    size = round(min(len(sampled), max(1, window_s * FRAME_RATE_HZ / DECIMATION)))
    centres, starts = _windows(len(sampled), size, EVERY_S * FRAME_RATE_HZ / DECIMATION)
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(sampled, size)[starts], axis=1)
    count = np.isfinite(ordered).sum(axis=1)
    rank = np.rint(percent / 100 * (count - 1)).astype(np.intp).clip(0)
    found = np.take_along_axis(ordered, rank[:, None], axis=1)[:, 0].astype(np.float64)
    return _joined(centres * DECIMATION, found, count > 0, len(values))


def rolling_mean(values: Frames, heard: Mask, window_s: float) -> Frames:
    """The mean of the heard values around each frame; NaN everywhere if nothing is heard."""
    size = round(min(len(values), max(1, window_s * FRAME_RATE_HZ)))
    centres, starts = _windows(len(values), size, EVERY_S * FRAME_RATE_HZ)
    total = np.concatenate(([0.0], np.cumsum(np.where(heard, values, 0.0))))
    count = np.concatenate(([0], np.cumsum(heard)))
    in_window = count[starts + size] - count[starts]
    found = (total[starts + size] - total[starts]) / np.maximum(in_window, 1)
    return _joined(centres, found, in_window > 0, len(values))


def moving_mean(values: Frames, width: int) -> Frames:
    """The mean over `width` (odd) frames around each frame; at the ends, over those that exist."""
    if len(values) == 0:
        return values
    half = width // 2
    sums = np.convolve(np.pad(values, half), np.ones(width), "valid")
    place = np.arange(len(values))
    return np.asarray(sums / (np.minimum(place, half) + np.minimum(place[::-1], half) + 1))


def _windows(length: int, size: int, every: float) -> tuple[Frames, NDArray[np.intp]]:
    """Centres, and the first frames of windows around them; at the ends the window shifts inwards, it never shrinks."""
    centres = np.arange(0, length + every, every)
    starts = np.rint(centres - size / 2).clip(0, length - size).astype(np.intp)
    return centres, starts


def _joined(centres: Frames, found: Frames, is_known: Mask, length: int) -> Frames:
    if not is_known.any():
        return np.full(length, np.nan)
    return np.interp(np.arange(length), centres[is_known], found[is_known])
