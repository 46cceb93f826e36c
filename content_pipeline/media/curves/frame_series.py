"""Values per hop: gathered block by block in little memory, and summed up to the RMS of frames as librosa does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves.model import FRAME_SAMPLES, HOP_SAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

OVERLAP = FRAME_SAMPLES // HOP_SAMPLES
BLOCK_FRAMES = 1 << 14
MOST_EXPECTED = 1 << 24  # values: four days; a length that somebody only declared must not ask for more
HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME_SAMPLES) / FRAME_SAMPLES)


class Series:
    """A curve that grows, in the room that it is expected to need: what is not written yet takes no memory.

    Growing by copies would hold twelve hours of it twice, a list of small arrays more than that.
    """

    def __init__(self, expected: int = 0) -> None:
        self._data = np.empty(min(max(expected, BLOCK_FRAMES), MOST_EXPECTED), np.float32)
        self._count = 0

    def append(self, values: Floats) -> None:
        self._room(len(values))[:] = values

    def append_zeros(self, count: int) -> None:
        self._room(count)[:] = 0

    def _room(self, count: int) -> Floats:
        """Where the next values go."""
        first, self._count = self._count, self._count + count
        if self._count > len(self._data):
            grown = np.empty(2 * self._count, np.float32)
            grown[:first] = self._data[:first]
            self._data = grown
        return self._data[first : self._count]

    def take(self) -> Floats:
        """All values, writable; the series is empty afterwards."""
        values, self._data, self._count = self._data[: self._count], np.empty(0, np.float32), 0
        return values


def rms_of_frames(hop_energy: Floats, frames: int) -> Floats:
    """RMS over windows of four hops, the first of which starts two hops before the recording.

    Written over the energy, a block at a time: twelve hours of it are held once, not three times.
    """
    for first in range(0, frames, BLOCK_FRAMES):
        end = min(first + BLOCK_FRAMES, frames)
        total = hop_energy[first:end].copy()
        for part in range(1, OVERLAP):
            total += hop_energy[first + part : end + part]
        total /= FRAME_SAMPLES
        np.sqrt(total, out=hop_energy[first:end])
    return hop_energy[:frames]


def window_sum(hop: int, last_frame: int | None) -> Floats:
    """The squared windows of the frames that exist and reach into `hop`: what overlap-add is divided by there."""
    quarters = (HANN**2).reshape(OVERLAP, HOP_SAMPLES)
    frames = {part: hop + 2 - part for part in range(OVERLAP)}
    present = [part for part, frame in frames.items() if frame >= 0 and (last_frame is None or frame <= last_frame)]
    total: Floats = quarters[present].sum(axis=0).astype(np.float32)
    return total
