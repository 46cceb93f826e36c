from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pytest

from content_pipeline.media.curves.model import Curves, load, store

NAMES = ("percussive", "rms", "broadband", "punch")


def curves(frames: int, seed: int = 1) -> Curves:
    random = np.random.default_rng(seed)
    return Curves(*(random.uniform(0, 1, frames).astype(np.float32) for _ in NAMES))


def same(one: Curves, other: Curves) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in NAMES)


@pytest.mark.parametrize("frames", [0, 1, 1000])
def test_curves_come_back_as_they_were_stored(tmp_path: Path, frames: int) -> None:
    tracks = {0: curves(frames), 3: curves(frames, 2), 12: curves(frames + 5)}

    store(tmp_path / "curves.npz", tracks)
    loaded = load(tmp_path / "curves.npz")
    assert list(loaded) == [0, 3, 12]
    assert all(same(loaded[index], tracks[index]) for index in tracks)
    assert loaded[0].rms.dtype == np.float32


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_npz_of_curves_is_read(tmp_path: Path, save: Any) -> None:
    stored, kept = tmp_path / "curves.npz", curves(100)
    save(stored, **{f"track0_{name}": getattr(kept, name) for name in NAMES})

    assert same(load(stored)[0], kept)


def test_nothing_but_numbers_is_read(tmp_path: Path) -> None:
    stored = tmp_path / "curves.npz"
    objects = np.array([{}], dtype=object)
    arrays: dict[str, Any] = {f"track0_{name}": objects for name in NAMES}
    np.savez(stored, **arrays)

    with pytest.raises(ValueError, match=r"(?i)object"):
        load(stored)


def test_half_of_it_is_no_curves(tmp_path: Path) -> None:
    stored = tmp_path / "curves.npz"
    store(stored, {0: curves(1000)})
    stored.write_bytes(stored.read_bytes()[: stored.stat().st_size // 2])

    with pytest.raises(BadZipFile):
        load(stored)
