"""Opening a video: what changed meanwhile, and which of several copies speaks for it."""

import os
from pathlib import Path

import pytest

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import CorruptMedia, FileInUse, LibraryOffline, MissingFile
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.media.source import Signature
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext


@pytest.fixture
def context(tmp_path: Path) -> StageContext:
    manifest = Manifest(open_engine(f"sqlite:///{tmp_path}/queue.db"))
    return StageContext(Settings(), ArtifactStore(tmp_path / "artifacts"), manifest.videos, manifest.publications)


def known(context: StageContext, path: Path, text: str = "content") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    context.videos.save(KnownVideo(path, path.parent, "key", str(Signature.of(path.stat())), "quick", "full"))
    return path


def test_damage_in_a_file_that_changed_meanwhile_is_no_verdict(context: StageContext, tmp_path: Path) -> None:
    file = known(context, tmp_path / "l" / "a.mp4")
    with pytest.raises(CorruptMedia), context.open_content("key", "full"):
        raise CorruptMedia("damaged")
    with pytest.raises(FileInUse), context.open_content("key", "full"):
        os.truncate(file, 1)
        raise CorruptMedia("damaged")


def test_a_copy_that_is_unchanged_speaks_for_a_video(context: StageContext, tmp_path: Path) -> None:
    unchanged = known(context, tmp_path / "l" / "a.mp4")
    known(context, tmp_path / "l" / "b.mp4").write_text("something else")
    with context.open_video("key") as (source, _):
        assert source.path == unchanged
    unchanged.write_text("changed as well")
    with pytest.raises(FileInUse, match="every copy"), context.open_video("key"):
        pass


def test_a_single_file_that_was_edited_is_still_the_video(context: StageContext, tmp_path: Path) -> None:
    file = known(context, tmp_path / "l" / "a.mp4")
    file.write_text("edited")
    with context.open_video("key") as (source, _):
        assert source.path == file


def test_a_missing_file_and_a_missing_library_are_told_apart(context: StageContext, tmp_path: Path) -> None:
    file = known(context, tmp_path / "l" / "a.mp4")
    file.unlink()
    with pytest.raises(MissingFile), context.open_video("key"):
        pass
    file.parent.rmdir()
    with pytest.raises(LibraryOffline), context.open_video("key"):
        pass
    with pytest.raises(MissingFile, match="scan its folder"), context.open_video("unknown"):
        pass
