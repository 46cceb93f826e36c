import os
import re
from pathlib import Path

import pytest

from content_pipeline.library.identify import identify
from content_pipeline.library.keys import slug
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.videos import Videos

MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Videos:
    return Manifest(open_engine(f"sqlite:///{tmp_path}/queue.db")).videos


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def key(path: Path, store: Videos) -> str:
    return identify(path, path.parent, store).key


@pytest.mark.parametrize(
    "name",
    [
        "Plain",
        "name with spaces",
        "-x",
        "....",
        "ünïcödé-日本語-🎮",
        "日本語",
        "a,b;c",
        "$(id)",
        "x" * 300,
        "new\nline",
    ],
)
def test_keys_use_a_safe_alphabet(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", slug(name))


def test_the_same_file_keeps_its_key(tmp_path: Path, store: Videos) -> None:
    file = write(tmp_path / "l" / "My Clip.mp4", b"content")
    first = key(file, store)
    assert first.startswith("my-clip-")
    os.utime(file)
    assert key(file, store) == first


def test_a_moved_or_renamed_file_keeps_its_key(tmp_path: Path, store: Videos) -> None:
    file = write(tmp_path / "l" / "a.mp4", b"content")
    first = key(file, store)
    moved = file.rename(tmp_path / "l" / "b.mp4")
    assert key(moved, store) == first
    assert [video.path for video in store.with_key(first)] == [moved]


def test_two_copies_share_one_key(tmp_path: Path, store: Videos) -> None:
    first = key(write(tmp_path / "l" / "a.mp4", b"content"), store)
    assert key(write(tmp_path / "l" / "b.mp4", b"content"), store) == first
    assert len(store.with_key(first)) == 2


def test_an_edit_in_place_is_still_the_same_video(tmp_path: Path, store: Videos) -> None:
    file = write(tmp_path / "l" / "a.mp4", b"content")
    first = key(file, store)
    file.write_bytes(b"other content")
    assert key(file, store) == first


def test_a_copy_that_was_edited_becomes_its_own_video(tmp_path: Path, store: Videos) -> None:
    first = key(write(tmp_path / "l" / "a.mp4", b"content"), store)
    copy = write(tmp_path / "l" / "b.mp4", b"content")
    assert key(copy, store) == first
    copy.write_bytes(b"something else")
    assert key(copy, store) != first


def test_equal_samples_with_other_content_between_are_two_videos(tmp_path: Path, store: Videos) -> None:
    data = bytearray(40 * MIB)
    first = write(tmp_path / "l" / "a.mp4", bytes(data))
    data[14 * MIB : 15 * MIB] = os.urandom(MIB)
    second = write(tmp_path / "l" / "sub" / "a.mp4", bytes(data))
    assert key(first, store) != key(second, store)


def test_an_unchanged_file_is_not_read(tmp_path: Path, store: Videos) -> None:
    file = write(tmp_path / "l" / "a.mp4", b"content")
    first = identify(file, file.parent, store)
    before = file.stat().st_atime_ns
    assert identify(file, file.parent, store) == first
    assert file.stat().st_atime_ns == before


def test_names_that_are_no_unicode_come_back_as_they_were(tmp_path: Path, store: Videos) -> None:
    file = write(tmp_path / "l" / os.fsdecode(b"caf\xe9-\xff.mp4"), b"content")
    first = identify(file, file.parent, store)
    assert store.with_key(first.key)[0].path == file
    assert store.at(file) == first
