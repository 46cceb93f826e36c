"""A file is opened below its root or not at all, also while somebody swaps folders and links."""

from __future__ import annotations

import os
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from content_pipeline.errors import MissingFile, PipelineError, UnsafePath
from content_pipeline.media.source import open_source
from content_pipeline_tests.helpers.chaos import by_size

TRIES = by_size(4_000, 40_000)


def _content(path: Path, root: Path) -> bytes:
    with open_source(path, root) as source:
        return os.pread(source.descriptor, 100, 0)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    (folder / "season" / "one").mkdir(parents=True)
    (folder / "season" / "one" / "game.mp4").write_text("inside")
    (tmp_path / "outside" / "one").mkdir(parents=True)
    (tmp_path / "outside" / "one" / "game.mp4").write_text("outside")
    return folder


def test_links_that_stay_inside_are_followed(library: Path, tmp_path: Path) -> None:
    (library / "absolute").symlink_to(library / "season")
    (library / "relative").symlink_to("season/one")
    (library / "season" / "up.mp4").symlink_to("../season/one/game.mp4")
    (tmp_path / "elsewhere").symlink_to(library)
    for path in ("season/one/game.mp4", "absolute/one/game.mp4", "relative/game.mp4", "season/up.mp4"):
        assert _content(library / path, library) == b"inside"
        assert _content(tmp_path / "elsewhere" / path, tmp_path / "elsewhere") == b"inside"
        assert _content(tmp_path / "elsewhere" / path, library) == b"inside"


def test_links_that_lead_outside_are_not(library: Path, tmp_path: Path) -> None:
    (library / "absolute").symlink_to(tmp_path / "outside")
    (library / "relative").symlink_to("../outside/one")
    (library / "loop").symlink_to("loop")
    outside = ("absolute/one/game.mp4", "relative/game.mp4", "../outside/one/game.mp4", ".", "season")
    for path in (*outside, "loop"):
        with pytest.raises(UnsafePath):
            _content(library / path, library)


def test_what_is_not_there_has_a_name(library: Path, tmp_path: Path) -> None:
    for path, root in (
        (library / "none.mp4", library),
        (library / "season" / "one" / "game.mp4" / "x", library),
        (tmp_path / "gone" / "game.mp4", tmp_path / "gone"),
    ):
        with pytest.raises(MissingFile):
            _content(path, root)


def _swap(folder: Path, outside: Path, stop: Event) -> None:
    """A folder of the library becomes a link out of it and back, as fast as can be."""
    aside = folder.with_name("aside")
    while not stop.is_set():
        folder.rename(aside)
        folder.symlink_to(outside)
        folder.unlink()
        aside.rename(folder)


def test_swapping_a_folder_for_a_link_never_leads_outside(library: Path, tmp_path: Path) -> None:
    context = get_context("fork")
    stop = context.Event()
    swapper = context.Process(target=_swap, args=(library / "season", tmp_path / "outside", stop), daemon=True)
    swapper.start()
    read: dict[bytes, int] = {}
    try:
        for _ in range(TRIES):
            try:
                content = _content(library / "season" / "one" / "game.mp4", library)
            except PipelineError as error:
                content = error.code.encode()
            read[content] = read.get(content, 0) + 1
    finally:
        stop.set()
        swapper.join()
    assert b"outside" not in read
    assert read[b"inside"] > 0
    assert len(read) > 1, f"nothing was swapped at the right moment: {read}"
