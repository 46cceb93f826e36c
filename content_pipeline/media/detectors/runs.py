"""Runs: the stretches of frames where a condition holds, and what holds over each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Runs = NDArray[np.intp]  # one row per run: first frame, end (exclusive)


def runs(mask: NDArray[np.bool_]) -> Runs:
    """Each unbroken run of true frames, in order."""
    edges: Runs = np.flatnonzero(np.diff(mask.view(np.int8), prepend=0, append=0))
    return edges.reshape(-1, 2)


def over_runs(combine: np.ufunc, values: NDArray[Any], of: Runs) -> NDArray[Any]:
    """`combine` (such as `np.maximum`) of the values inside each run; runs are never empty."""
    if len(of) == 0:
        return values[:0]
    # reduceat wants every index inside the array, and the last run may end where the array does.
    padded = np.append(values, values[-1:])
    return np.asarray(combine.reduceat(padded, of.ravel())[::2])


def narrowed(of: Runs, mask: NDArray[np.bool_]) -> Runs:
    """Each run cut down to its first and last true frame of `mask`; without one it becomes empty."""
    true_frames = np.flatnonzero(mask)
    if len(true_frames) == 0:
        return np.column_stack((of[:, 0], of[:, 0]))
    after = np.searchsorted(true_frames, of[:, 0])
    before = np.searchsorted(true_frames, of[:, 1]) - 1
    first = true_frames[np.minimum(after, len(true_frames) - 1)]
    end = true_frames[np.maximum(before, 0)] + 1
    return np.where((after <= before)[:, None], np.column_stack((first, end)), of[:, :1])
