"""A long curve seen through few pixel columns: lowest, highest and mean value of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.floating[Any]]
    Columns = NDArray[np.float64]

_SAMPLES_PER_SPARSE_COLUMN = 4


@dataclass(frozen=True, eq=False)
class Envelope:
    """One value per pixel column; NaN where the curve says nothing."""

    low: Columns
    high: Columns
    mean: Columns


def envelope(values: Values, frame_rate_hz: float, duration_s: float, columns: int) -> Envelope:
    """The curve over `[0, duration_s)`. Neighbouring columns share a value, so that the line has no holes."""
    frames_per_column = duration_s * frame_rate_hz / columns
    values = _finite_or_nan(np.asarray(values).ravel())
    if values.size == 0:
        nothing = np.full(columns, np.nan)
        return Envelope(nothing, nothing, nothing)
    if frames_per_column < _SAMPLES_PER_SPARSE_COLUMN:
        step = frames_per_column / _SAMPLES_PER_SPARSE_COLUMN
        places = np.arange(columns * _SAMPLES_PER_SPARSE_COLUMN) * step
        values = np.interp(places, np.arange(values.size), values, right=np.nan)
        frames_per_column = _SAMPLES_PER_SPARSE_COLUMN
    return _by_column(values, frames_per_column, columns)


def _by_column(values: Values, frames_per_column: float, columns: int) -> Envelope:
    values = values[: int(np.ceil(frames_per_column * columns))]
    starts = np.floor(np.arange(columns) * frames_per_column).astype(np.intp)
    starts = starts[starts < values.size]
    low = np.fmin.reduceat(values, starts)
    high = np.fmax.reduceat(values, starts)
    first_of_next = values[starts[1:]]
    low[:-1] = np.fmin(low[:-1], first_of_next)
    high[:-1] = np.fmax(high[:-1], first_of_next)
    return Envelope(*(_padded(part, columns) for part in (low, high, _means(values, starts))))


def _means(values: Values, starts: NDArray[np.intp]) -> Columns:
    known = np.isfinite(values)
    sums = np.add.reduceat(np.where(known, values, 0), starts, dtype=np.float64)
    counts = np.add.reduceat(known, starts, dtype=np.float64)
    means = np.full(starts.size, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def _finite_or_nan(values: Values) -> Values:
    """Silence in decibels (minus infinity) stands at the lowest level there is; a threshold at infinity nowhere."""
    finite = np.isfinite(values)
    if finite.all():
        return values
    lowest = values[finite].min() if finite.any() else np.nan
    return np.where(finite, values, np.where(np.isneginf(values), lowest, np.nan))


def _padded(part: Values, columns: int) -> Columns:
    return np.concatenate([part.astype(np.float64), np.full(columns - part.size, np.nan)])
