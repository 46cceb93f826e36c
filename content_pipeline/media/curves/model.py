"""The curves that detection reads: one value per hop of sound, per audio track.

Positions follow the recording's clock: frame `i` is centred at `i / FRAME_RATE_HZ` seconds,
and silence stands where the track has none. All curves are cached in one pass, so that
deciding again never decodes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_STORED, ZipFile, ZipInfo

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
    `rms`: plain RMS. `broadband`: level of what is loud across the whole spectrum at once.
    `punch`: level of what has boom and crack at the same time, as a blow has."""

    percussive: Curve
    rms: Curve
    broadband: Curve
    punch: Curve

    def each(self, change: Callable[[Curve], Curve]) -> Curves:
        """The same done to every curve."""
        return Curves(*(change(getattr(self, name)) for name in CURVE_NAMES))


CURVE_NAMES = tuple(field.name for field in fields(Curves))


def store(path: Path, tracks: Mapping[int, Curves]) -> None:
    """All tracks as one npz; plain arrays only, never pickle."""
    arrays = {f"track{index}_{name}": getattr(curves, name) for index, curves in tracks.items() for name in CURVE_NAMES}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load(path: Path) -> dict[int, Curves]:
    """The tracks of a stored file: of them, only what is looked at is read. The file must not change any more."""
    with path.open("rb") as file, ZipFile(file) as archive:
        content = mmap(file.fileno(), 0, access=ACCESS_READ)
        arrays = {member.filename.removesuffix(".npy"): _array(archive, member, content) for member in archive.filelist}
    indices = sorted({int(name.removeprefix("track").split("_")[0]) for name in arrays})
    return {index: Curves(*(arrays[f"track{index}_{name}"] for name in CURVE_NAMES)) for index in indices}


def _array(archive: ZipFile, member: ZipInfo, content: mmap) -> Curve:
    """One array of an npz. NumPy would copy it and add up its bytes, at a third of what deciding costs."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if member.compress_type != ZIP_STORED:
            return np.frombuffer(file.read(), dtype).reshape(shape)
        start = _content_start(content, member) + file.tell()
    return np.frombuffer(content, dtype, math.prod(shape), start).reshape(shape)


def _content_start(content: mmap, member: ZipInfo) -> int:
    """Behind the member's own header, which holds its name and extra fields of any length."""
    name_bytes, extra_bytes = struct.unpack_from("<HH", content, member.header_offset + 26)
    return member.header_offset + 30 + int(name_bytes) + int(extra_bytes)
