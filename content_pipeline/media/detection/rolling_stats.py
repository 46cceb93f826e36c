"""What a recording sounds like around each frame: its floor and its loudness, over a rolling window.

Evaluated at nodes, one every few seconds, and joined by straight lines, so that an hour takes a millisecond.
Frames that are not heard (silence, a pause in the recording) do not count: a muted minute must not make
the ordinary sound after it an event. A window longer than the recording is the whole of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves.model import FRAME_RATE_HZ

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Frames = NDArray[np.float32]
    Nodes = NDArray[np.float64]
    Mask = NDArray[np.bool_]

# About ten seconds, and a whole number of both steps below.
NODE_FRAMES = 432
# A percentile over a minute needs no more than three values a second, a mean no finer edges than a second.
PERCENTILE_STEP = 16
MEAN_STEP = 48
# Small enough that what is computed on the way stays in the processor's cache and in memory that is at hand.
BLOCK_FRAMES = 1 << 14


def rolling_percentile(values: Frames, heard: Mask, window_s: float, percent: float) -> Nodes:
    """The percentile of the heard values around each node; NaN everywhere if nothing is heard."""
    sampled = np.where(heard[::PERCENTILE_STEP], values[::PERCENTILE_STEP], np.float32(np.inf))
    size, starts = _windows(len(values), PERCENTILE_STEP, window_s)
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(sampled, size)[starts], axis=1)
    count = np.isfinite(ordered).sum(axis=1)
    rank = np.rint(percent / 100 * (count - 1)).astype(np.intp).clip(0)
    return _known(np.take_along_axis(ordered, rank[:, None], axis=1)[:, 0].astype(np.float64), count > 0)


def rolling_mean(values: Frames, heard: Mask, window_s: float) -> Nodes:
    """The mean of the heard values around each node; NaN everywhere if nothing is heard."""
    size, starts = _windows(len(values), MEAN_STEP, window_s)
    first, end = starts * MEAN_STEP, np.minimum((starts + size) * MEAN_STEP, len(values))
    sums, unheard = _sums_before(values), np.flatnonzero(~heard)
    unheard_sums = np.concatenate(([0.0], np.cumsum(values[unheard], dtype=np.float64)))
    before, after = np.searchsorted(unheard, first), np.searchsorted(unheard, end)
    count = end - first - (after - before)
    total = sums[starts + size] - sums[starts] - (unheard_sums[after] - unheard_sums[before])
    return _known(total / np.maximum(count, 1), count > 0)


def between_nodes(nodes: Nodes, length: int) -> Frames:
    """A value for every frame, on the straight line between the nodes around it."""
    share = np.arange(NODE_FRAMES, dtype=np.float32) / np.float32(NODE_FRAMES)
    lines: Frames = np.diff(nodes).astype(np.float32)[:, None] * share
    lines += nodes[:-1].astype(np.float32)[:, None]
    return lines.ravel()[:length]


def moving_mean(values: Frames, width: int) -> Frames:
    """The mean over `width` (odd) frames around each frame; at the ends, over those that exist."""
    half, last = width // 2, len(values) - 1
    means = np.empty(len(values), np.float32)
    block = np.empty(BLOCK_FRAMES + 2 * half, np.float32)
    for first in range(0, len(values), BLOCK_FRAMES):
        count = min(BLOCK_FRAMES, len(values) - first)
        before, after = min(half, first), min(half, len(values) - first - count)
        block[: half - before] = block[half + count + after : count + 2 * half] = 0
        block[half - before : half + count + after] = values[first - before : first + count + after]
        means[first : first + count] = _moving_sums(block[: count + 2 * half], width)
    means /= np.float32(width)
    near_ends = np.unique(np.r_[: min(half, last + 1), max(0, last + 1 - half) : last + 1])
    existing = np.minimum(near_ends, half) + np.minimum(last - near_ends, half) + 1
    means[near_ends] *= (width / existing).astype(np.float32)
    return means


def _moving_sums(values: Frames, width: int) -> Frames:
    """Sums over every `width` neighbours, from sums over half as many: few passes, and exact where a running
    total would lose a quiet passage in the rounding of a loud one."""
    length = len(values) - width + 1
    total, start = np.zeros(length, np.float32), 0
    sums, reach = values, 1
    while True:
        if width & reach:
            total += sums[start : start + length]
            start += reach
        if 2 * reach > width:
            return total
        sums = sums[:-reach] + sums[reach:]
        reach *= 2


def step_sums(values: Frames, step: int) -> Nodes:
    """The sum over every so many frames, and over what is left at the end."""
    whole = len(values) // step * step
    # A product with ones: adding up short rows one by one takes ten times as long.
    in_steps = values[:whole].reshape(-1, step) @ np.ones(step, np.float32)
    rest = [values[whole:].sum()] if whole < len(values) else []
    return np.concatenate((in_steps, rest), dtype=np.float64)


def _sums_before(values: Frames) -> Nodes:
    """The sum of all that comes before each step, and before the end."""
    return np.cumsum(np.concatenate(([0.0], step_sums(values, MEAN_STEP))))


def _windows(length: int, step: int, window_s: float) -> tuple[int, NDArray[np.intp]]:
    """The size of a window in steps, and the first step of the window around each node.

    At the ends the window shifts inwards, it never shrinks.
    """
    steps = -(-length // step)
    size = round(min(steps, max(1, window_s * FRAME_RATE_HZ / step)))
    nodes = np.arange(-(-length // NODE_FRAMES) + 1) * (NODE_FRAMES // step)
    return size, (nodes - size // 2).clip(0, steps - size)


def _known(nodes: Nodes, is_known: Mask) -> Nodes:
    """Where nothing is heard around a node, the line between its neighbours."""
    if not is_known.any():
        return np.full(len(nodes), np.nan)
    places = np.arange(len(nodes))
    return np.interp(places, places[is_known], nodes[is_known])
