"""The curves that detection reads: one value per hop of sound, per audio track.

Positions follow the recording's clock: frame `i` is centred at `i / FRAME_RATE_HZ` seconds,
and silence stands where the track has none. All three curves are cached in one pass, so that
deciding again never decodes.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Curve = NDArray[np.float32]

SAMPLE_RATE_HZ = 22_050
FRAME_SAMPLES = 2_048
HOP_SAMPLES = 512
FRAME_RATE_HZ = SAMPLE_RATE_HZ / HOP_SAMPLES


@dataclass(frozen=True, eq=False)
class Curves:
    """`percussive`: RMS of the percussive part, as librosa computes it (the classic curve).
    `rms`: plain RMS. `broadband`: level of what is loud across the whole spectrum at once."""

    percussive: Curve
    rms: Curve
    broadband: Curve

    @property
    def duration_s(self) -> float:
        return len(self.rms) / FRAME_RATE_HZ


def pack(tracks: Mapping[int, Curves]) -> bytes:
    """All tracks as one npz; plain arrays only, never pickle."""
    arrays = {
        f"track{index}_{name}": getattr(curves, name)
        for index, curves in tracks.items()
        for name in ("percussive", "rms", "broadband")
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(data: bytes) -> dict[int, Curves]:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        indices = sorted({int(name.removeprefix("track").split("_")[0]) for name in arrays.files})
        return {
            index: Curves(*(arrays[f"track{index}_{name}"] for name in ("percussive", "rms", "broadband")))
            for index in indices
        }
