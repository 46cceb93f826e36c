import os
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.errors import MissingFile
from content_pipeline.library.scan import scan
from content_pipeline.settings import LibrarySettings


@pytest.fixture
def library(tmp_path: Path) -> Path:
    root = tmp_path / "library"
    (root / "sub").mkdir(parents=True)
    for name in ("b.mp4", "a.MKV", "notes.txt", "-x.mp4", "....mp4", "new\nline.mp4", "sub/c.mov", "._a.mp4"):
        (root / name).write_text("x")
    (root / "folder.mp4").mkdir()
    os.mkfifo(root / "pipe.mp4")
    (tmp_path / "outside.mp4").write_text("x")
    (root / "link.mp4").symlink_to(tmp_path / "outside.mp4")
    (root / "dangling.mp4").symlink_to(root / "nothing.mp4")
    return root


def names(found: Any) -> list[str]:
    return [str(found_one.path.relative_to(found.root)) for found_one in found.recordings]


def test_regular_files_are_found_whatever_their_name(library: Path) -> None:
    found = scan(library, LibrarySettings())
    assert names(found) == ["-x.mp4", "....mp4", "a.MKV", "b.mp4", "new\nline.mp4"]


def test_sub_folders_are_looked_into_when_asked(library: Path) -> None:
    assert "sub/c.mov" in names(scan(library, LibrarySettings(recursive=True)))


def test_links_out_are_refused_and_other_kinds_are_counted(library: Path) -> None:
    found = scan(library, LibrarySettings())
    assert {refused.path.name: refused.error.code for refused in found.refused} == {
        "link.mp4": "unsafe_path",
        "dangling.mp4": "missing_file",
    }
    assert found.passed_over == {"folder": 1, "pipe": 1, "resource fork": 1}
    assert found.other_endings == {".txt": 1}


def test_files_with_other_endings_are_counted_and_videos_among_them_known(library: Path) -> None:
    for name in ("x.ts", "y.TS", "z.flv", "no-ending", ".hidden.ts", "sub/w.webm"):
        (library / name).write_text("x")
    (library / "folder.ts").mkdir()
    (library / "link.ts").symlink_to(library / "x.ts")
    found = scan(library, LibrarySettings())
    assert found.other_endings == {".txt": 1, ".ts": 2, ".flv": 1, "": 1}
    assert found.likely_recordings == {".ts": 2, ".flv": 1}
    assert scan(library, LibrarySettings(recursive=True)).other_endings[".webm"] == 1


def test_extensions_can_be_chosen(library: Path) -> None:
    assert names(scan(library, LibrarySettings(extensions=("txt",)))) == ["notes.txt"]


def test_a_single_file_is_taken_whatever_its_extension(library: Path) -> None:
    found = scan(library / "notes.txt", LibrarySettings())
    assert names(found) == ["notes.txt"]
    assert found.root == library


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="nowhere"):
        scan(tmp_path / "nowhere", LibrarySettings())


def test_a_link_that_leads_round_in_circles_ends(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "a.mp4").write_text("x")
    assert names(scan(tmp_path, LibrarySettings(recursive=True))) == ["a.mp4"]
