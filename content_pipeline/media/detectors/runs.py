"""Runs: the stretches of frames where a condition holds, and what holds over each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.intp]  # numbers of frames
    Runs = NDArray[np.intp]  # one row per run: first frame, end (exclusive)


def runs(mask: NDArray[np.bool_]) -> Runs:
    """Each unbroken run of true frames, in order."""
    if len(mask) == 0:
        return np.empty((0, 2), np.intp)
    edges = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    start, end = [0] if mask[0] else [], [len(mask)] if mask[-1] else []
    return np.concatenate((start, edges, end)).astype(np.intp).reshape(-1, 2)


def over_runs(combine: np.ufunc, values: NDArray[np.float32], of: Runs) -> NDArray[np.float64]:
    """`combine` (such as `np.maximum`) of the values inside each run; runs are never empty."""
    if len(of) == 0:
        return np.empty(0)
    # reduceat wants every index inside the array, and the last run may end where the array does.
    bounds = of.ravel() if of[-1, 1] < len(values) else of.ravel()[:-1]
    return np.asarray(combine.reduceat(values, bounds, dtype=np.float64)[::2])


def narrowed(of: Runs, mask: NDArray[np.bool_]) -> Runs:
    """Each run cut down to its first and last true frame of `mask`; without one it becomes empty."""
    true = runs(mask)
    if len(true) == 0:
        return np.column_stack((of[:, 0], of[:, 0]))
    after = np.searchsorted(true[:, 1], of[:, 0], side="right")
    before = np.searchsorted(true[:, 0], of[:, 1]) - 1
    first = np.maximum(true[np.minimum(after, len(true) - 1), 0], of[:, 0])
    end = np.minimum(true[np.maximum(before, 0), 1], of[:, 1])
    return np.where((after <= before)[:, None], np.column_stack((first, end)), of[:, :1])


def count_around(frames: Places, of: Runs, reach: int) -> Places:
    """How many of the frames, which are in order, lie in each run and within reach of it."""
    return np.searchsorted(frames, of[:, 1] + reach) - np.searchsorted(frames, of[:, 0] - reach)


def crowded(frames: Places, least: int, within: int) -> Places:
    """Those of the frames, which are in order, that begin a stretch of time with at least so many of them."""
    if len(frames) < least:
        return frames[:0]
    return frames[: len(frames) - least + 1][frames[least - 1 :] - frames[: len(frames) - least + 1] < within]
