"""The running median against the plain definition, and against scipy where scipy can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from content_pipeline.media.curves.medians import GROUP, HALF, WINDOW, RunningMedian, mirrored


def median31(values: NDArray[Any], axis: int) -> NDArray[Any]:
    """The running median of a 2-D array along `axis`, mirrored at the edges: `scipy.ndimage.median_filter` on 31."""
    columns = np.moveaxis(values, axis, 0)
    count, width = columns.shape
    groups = -(-count // GROUP) + 2
    padded = columns[mirrored(np.arange(-GROUP, (groups - 1) * GROUP), count)]
    running = RunningMedian(groups, width, values.dtype)
    running.values[:] = padded.reshape(groups, GROUP, width).transpose(1, 0, 2)
    rows = running().transpose(1, 0, 2).reshape(-1, width)[:count]
    return np.ascontiguousarray(np.moveaxis(rows, 0, axis))


def by_definition(values: NDArray[np.generic], axis: int) -> NDArray[np.generic]:
    padding = [(HALF, HALF) if dimension == axis else (0, 0) for dimension in range(2)]
    padded = np.pad(values, padding, mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, axis=axis)
    return np.sort(windows, axis=-1)[..., HALF]


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "shape", [(31, 31), (64, 47), (33, 1025), (100, 40)]
)  # scipy reads outside arrays shorter than the window
def test_the_running_median_is_scipys(shape: tuple[int, int], axis: int, dtype: type[np.generic]) -> None:
    # No shorter shapes: scipy reads outside arrays that are shorter than the window.
    values = np.random.default_rng(1).gamma(1, 100, shape).astype(dtype)
    size = (WINDOW, 1) if axis == 0 else (1, WINDOW)
    np.testing.assert_array_equal(median31(values, axis), median_filter(values, size=size, mode="reflect"))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 80),
    columns=st.integers(1, 80),
    axis=st.integers(0, 1),
    levels=st.sampled_from([2, 7, 65_536]),
    seed=st.integers(0, 1_000_000),
)
def test_the_running_median_holds_for_any_shape_and_for_ties(
    rows: int, columns: int, axis: int, levels: int, seed: int
) -> None:
    values = np.random.default_rng(seed).integers(0, levels, (rows, columns)).astype(np.uint16)
    np.testing.assert_array_equal(median31(values, axis), by_definition(values, axis))
