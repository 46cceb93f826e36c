"""Running medians of 31 values by whole-array minima and maxima: no branches, no sorting of single windows.

Neighbouring windows share most of their values, so the work is shared as well. The values are cut into
groups of 16. The windows of the 16 outputs around a group all hold that whole group; the windows of the
first 8 of them also hold the last 8 values before it, and so on down to single values. At each halving
the sorted values that all of these windows share are merged with the few they gain, and what can no
longer be the median is forgotten: 16 candidates become 8, 4, 2 and 1. That is about 24 operations per
output instead of the 140 of a selection network per window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    Values = NDArray[Any]

GROUP = 16
WINDOW = 2 * GROUP - 1
HALF = GROUP - 1


class RunningMedian:
    """Medians along the first two axes of `values`, an array shaped `(GROUP, groups, width)`.

    Value number `16 * g + r` stands at `[r, g]`: operations then run over long contiguous rows. The caller fills
    `values`; `medians`, shaped `(GROUP, groups - 2, width)`, then holds for the value at `[r, g + 1]` the median
    of the 15 values before it, itself, and the 15 after it. The steps are laid out once, on buffers that are
    reused, so that a call is nothing but arithmetic.
    """

    def __init__(self, groups: int, width: int, dtype: DTypeLike = np.uint16) -> None:
        self.values = np.zeros((GROUP, groups, width), dtype)
        self._width = width
        self._steps: list[tuple[np.ufunc, Values, Values, Values]] = []
        blocks = self._sort_blocks(self.values.reshape(GROUP, -1))
        candidates = blocks[GROUP][:, width:-width]
        for length in (8, 4, 2, 1):
            candidates = self._narrow(candidates, blocks[length], length)
        self.medians = candidates.reshape(GROUP, groups - 2, width)

    def __call__(self) -> Values:
        for operation, left, right, out in self._steps:
            operation(left, right, out=out)
        return self.medians

    def _sort_blocks(self, values: Values) -> dict[int, Values]:
        """Plan to sort each group in blocks of 1, 2, 4, 8 and 16 values."""
        blocks = {1: values}
        for length in (1, 2, 4, 8):
            merged = np.empty_like(values)
            below = _in_blocks(blocks[length], length)
            self._exchange(below[:, 0], below[:, 1, ::-1], _in_blocks(merged, length))
            blocks[2 * length] = self._sort_bitonic(merged, np.empty_like(merged), length)
        return blocks

    def _narrow(self, shared: Values, blocks: Values, length: int) -> Values:
        """Plan to go from `2 * length` sorted candidates for each set of windows to `length` for each half of the set.

        The left half gains a block of the group before, the right half one of the group after. Of candidates and
        block together only the middle ones stay: the smallest and the largest `length` cannot be the median.
        """
        gained, kept = (np.empty(shared.shape, shared.dtype) for _ in range(2))
        gains = _in_blocks(blocks, length)
        middle = _in_blocks(gained, length)
        parents = _in_blocks(shared, length)
        lower, upper = parents[:, 0], parents[:, 1]
        self._steps.append((np.minimum, upper, gains[:, 1, ::-1, : -2 * self._width], middle[:, 0]))
        self._steps.append((np.minimum, upper, gains[:, 0, ::-1, 2 * self._width :], middle[:, 1]))
        self._steps.append((np.maximum, lower[:, None], middle, _in_blocks(kept, length)))
        return self._sort_bitonic(kept, gained, length)

    def _exchange(self, left: Values, right: Values, out: Values) -> None:
        """Plan to put the smaller of each pair into `out[:, 0]` and the larger into `out[:, 1]`."""
        self._steps.append((np.minimum, left, right, out[:, 0]))
        self._steps.append((np.maximum, left, right, out[:, 1]))

    def _sort_bitonic(self, values: Values, other: Values, length: int) -> Values:
        """Plan to sort blocks that rise then fall, or the reverse; of the two buffers, give the one with the result."""
        while length > 1:
            length //= 2
            pairs = _in_blocks(values, length)
            self._exchange(pairs[:, 0], pairs[:, 1], _in_blocks(other, length))
            values, other = other, values
        return values


def _in_blocks(values: Values, length: int) -> Values:
    """The 16 rows seen as pairs of blocks, `(pairs, 2, length, -1)`; splitting the first axis never copies."""
    return values.reshape(GROUP // (2 * length), 2, length, -1)


def mirrored(index: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Positions beyond either end as seen in a mirror that repeats the edge: `c b a | a b c | c b a`."""
    folded = index % (2 * count)
    return np.minimum(folded, 2 * count - 1 - folded)
