"""The key of each stage for fixed inputs: another key means that nobody's cache is found again.

A key changes with the version of its stage, and with a new or changed default of a setting that the stage reads. Any
other change of these constants is a mistake.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render.encoding import FrameSize
from content_pipeline.media.selection.best_of_selection import Contender, Offer
from content_pipeline.media.spans import Scene, Span
from content_pipeline.settings import Settings
from content_pipeline.stages.best_of import _ReadableVideo, _Shot, best_of_key
from content_pipeline.stages.clips import ClipRequest
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.detections import detections_key
from content_pipeline.stages.energy import energy_key
from content_pipeline.stages.fingerprint import VideoContent, fingerprint_key
from content_pipeline.stages.montage import montage_key

CONTENT = VideoContent("game-1", "blake3:00", "11", MediaInfo("mp4", 10.0, 0.0, None, ()))
SPANS = (Span(1.0, 2.5), Span(4.0, 6.0))


@pytest.fixture
def context(tmp_path: Path) -> StageContext:
    manifest = Manifest(open_engine(f"sqlite:///{tmp_path}/queue.db"))
    return StageContext(Settings(), ArtifactStore(tmp_path / "artifacts"), manifest.videos, manifest.publications)


def test_the_keys_of_a_video_stay_the_same(context: StageContext) -> None:
    assert {
        "fingerprint": fingerprint_key(context, CONTENT.full),
        "energy": energy_key(context, **CONTENT.identity),
        "detections": detections_key(context, CONTENT, "22", 1),
        "clip": ClipRequest(CONTENT, SPANS[0], 1, "copy").key(context),
        "montage": montage_key(context, CONTENT, 1, [Scene(SPANS[0], 2.0), Scene(SPANS[1], 5.5)]),
    } == {
        "fingerprint": "b7deaf2f4be6a395c69a29366a40c163e01baabaed5d300639a2032929bf3281",
        "energy": "a31be7dfeab494f5dbf06e53f744fcad6d7a67e8c9acc5b00e27c8ec10fc438c",
        "detections": "421f659f7a259092de753426aa510103adbb2f1b11cf4c39df7315592c28407b",
        "clip": "693baace3c43b1721fb8e970a6d696f07c45b53402669e1c76b73d1df2d68265",
        "montage": "c56fc8d9578a944d34efb3cbd95766a86622c84a8a7c5ffb52ab4fd2ad8fe288",
    }


def test_the_keys_of_a_best_of_stay_the_same(context: StageContext) -> None:
    library, size = Path("/games"), FrameSize(320, 180)
    video = _ReadableVideo(library / "game.mp4", CONTENT, 1, Offer("game-1", (), ()))
    shot = _Shot(Contender("game-1", SPANS[0], 3.0, 1.5), video)
    assert shot.request(size).key(context) == "3cca150cf2e4169cebc00795a78743b22707622c98431ab6683ac5e20750f28e"
    assert (
        best_of_key(context, library, [shot], size)
        == "a0e2c81304e6f4906644c0782a44f6a884f88046d841bebe97053a45400a7f69"
    )
