"""Values per hop: gathered block by block in little memory, and summed up to the RMS of frames as librosa does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves import FRAME_SAMPLES, HOP_SAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

OVERLAP = FRAME_SAMPLES // HOP_SAMPLES
BLOCK_FRAMES = 1 << 14
HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME_SAMPLES) / FRAME_SAMPLES)


class Series:
    """A curve that grows: a list of small arrays would take more room than the values in it."""

    def __init__(self) -> None:
        self._data = bytearray()

    def append(self, values: Floats) -> None:
        self._data += values.tobytes()

    def append_zeros(self, count: int) -> None:
        self._data += bytes(count * np.dtype(np.float32).itemsize)

    def take(self) -> Floats:
        """All values, writable; the series is empty afterwards."""
        data, self._data = self._data, bytearray()
        return np.frombuffer(data, np.float32)


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
