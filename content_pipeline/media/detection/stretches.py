"""Stretches of frames where a condition holds, and what holds over each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Stretches = NDArray[np.intp]  # one row per stretch: first frame, end (exclusive)


def stretches_where(mask: NDArray[np.bool_]) -> Stretches:
    """Each unbroken stretch of true frames, in order."""
    if len(mask) == 0:
        return np.empty((0, 2), np.intp)
    edges = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    start, end = [0] if mask[0] else [], [len(mask)] if mask[-1] else []
    return np.concatenate((start, edges, end)).astype(np.intp).reshape(-1, 2)


def over_stretches(combine: np.ufunc, values: NDArray[np.float32], stretches: Stretches) -> NDArray[np.float64]:
    """`combine` (such as `np.maximum`) of the values inside each stretch; none is empty."""
    if len(stretches) == 0:
        return np.empty(0)
    # reduceat wants every index inside the array, and the last stretch may end where the array does.
    bounds = stretches.ravel() if stretches[-1, 1] < len(values) else stretches.ravel()[:-1]
    # A sum needs more digits than its values; a maximum is one of them.
    dtype = np.float64 if combine is np.add else values.dtype
    return combine.reduceat(values, bounds, dtype=dtype)[::2].astype(np.float64)


def narrowed(stretches: Stretches, mask: NDArray[np.bool_]) -> Stretches:
    """Each stretch cut down to its first and last true frame of `mask`; without one it becomes empty."""
    true = stretches_where(mask)
    if len(true) == 0:
        return np.column_stack((stretches[:, 0], stretches[:, 0]))
    first_true = np.searchsorted(true[:, 1], stretches[:, 0], side="right")
    last_true = np.searchsorted(true[:, 0], stretches[:, 1]) - 1
    first = np.maximum(true[np.minimum(first_true, len(true) - 1), 0], stretches[:, 0])
    end = np.minimum(true[np.maximum(last_true, 0), 1], stretches[:, 1])
    return np.where((first_true <= last_true)[:, None], np.column_stack((first, end)), stretches[:, :1])


class CountedFrames:
    """A mask of frames, of which is asked again and again how many lie somewhere."""

    def __init__(self, mask: NDArray[np.bool_]) -> None:
        self._before = np.zeros(len(mask) + 1, np.int32)  # how many come before each frame, and before the end
        np.cumsum(mask, out=self._before[1:])

    def around(self, stretches: Stretches, reach: int) -> NDArray[np.int32]:
        """How many lie in each stretch and within reach of it."""
        first, end = np.maximum(stretches[:, 0] - reach, 0), np.minimum(stretches[:, 1] + reach, len(self._before) - 1)
        return self._before[end] - self._before[first]

    def crowded(self, least: int, within: int, step: int) -> NDArray[np.intp]:
        """Where a stretch of so many frames begins that holds at least so many of them; looked for in steps."""
        starts = np.arange(0, len(self._before) - 1, step)
        ends = np.minimum(starts + within, len(self._before) - 1)
        return starts[self._before[ends] - self._before[starts] >= least]
