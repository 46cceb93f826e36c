from __future__ import annotations

import io
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pytest

from content_pipeline.media.curves.model import Curves, load, pack, unpack

NAMES = ("percussive", "rms", "broadband", "punch")


def curves(frames: int, seed: int = 1) -> Curves:
    random = np.random.default_rng(seed)
    return Curves(*(random.uniform(0, 1, frames).astype(np.float32) for _ in NAMES))


def same(one: Curves, other: Curves) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in NAMES)


@pytest.mark.parametrize("frames", [0, 1, 1000])
def test_curves_come_back_as_they_were_packed(tmp_path: Path, frames: int) -> None:
    tracks = {0: curves(frames), 3: curves(frames, 2), 12: curves(frames + 5)}

    (tmp_path / "curves.npz").write_bytes(pack(tracks))
    for unpacked in (unpack(pack(tracks)), load(tmp_path / "curves.npz")):
        assert list(unpacked) == [0, 3, 12]
        assert all(same(unpacked[index], tracks[index]) for index in tracks)
        assert unpacked[0].rms.dtype == np.float32


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_npz_of_curves_is_read(save: object) -> None:
    stored, kept = io.BytesIO(), curves(100)
    save(stored, **{f"track0_{name}": getattr(kept, name) for name in NAMES})  # type: ignore[operator]

    assert same(unpack(stored.getvalue())[0], kept)


def test_nothing_but_numbers_is_read() -> None:
    stored = io.BytesIO()
    objects = np.array([{}], dtype=object)
    np.savez(stored, **{f"track0_{name}": objects for name in NAMES})

    with pytest.raises(ValueError, match=r"(?i)object"):
        unpack(stored.getvalue())


def test_half_of_it_is_no_curves() -> None:
    data = pack({0: curves(1000)})

    with pytest.raises(BadZipFile):
        unpack(data[: len(data) // 2])
