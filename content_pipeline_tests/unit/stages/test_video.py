"""The stages of a video, asked for as assets ask for them: together, alone, after a failure, by another process."""

from __future__ import annotations

import inspect
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import FileInUse
from content_pipeline.library.identify import identify
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load
from content_pipeline.stage import VIDEO_STAGES, spec_of
from content_pipeline.stages import video as module
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.video import VideoStages
from content_pipeline_tests.helpers import samples


class Video:
    """One recording in a library, and how often each stage of it was entered."""

    def __init__(self, folder: Path, recording: Path) -> None:
        flags = {"state_dir": folder / "state", "output_dir": folder / "output"}
        settings = load(flags=flags, env={}).settings
        manifest, artifacts = open_manifest(settings), ArtifactStore(settings.state_dir / "artifacts")
        self.context = StageContext(settings, artifacts, manifest.videos, manifest.publications)
        self.path = Path(shutil.copy(recording, folder / "game.mp4"))
        self.key = identify(self.path, folder, manifest.videos).key
        self.entered: Counter[str] = Counter()

    def stages(self) -> VideoStages:
        """As a new process has them."""
        self.entered.clear()
        return VideoStages(self.context, self.key)


@pytest.fixture
def video(tmp_path: Path, samples_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Video:
    made = Video(tmp_path, samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)))

    def counting(stage: str) -> Callable[..., Any]:
        enter = getattr(module, stage)

        def count(*arguments: Any) -> Any:
            made.entered[stage] += 1
            return enter(*arguments)

        return count

    for stage in VIDEO_STAGES:
        monkeypatch.setattr(module, stage, counting(stage))
    return made


def test_each_stage_is_entered_once_in_a_run(video: Video) -> None:
    stages = video.stages()
    made = [getattr(stages, stage)().result for stage in VIDEO_STAGES]
    assert video.entered == dict.fromkeys(VIDEO_STAGES, 1)
    assert [result.stage for result in made] == list(VIDEO_STAGES)
    assert not any(result.reused for result in made)


def test_a_stage_that_is_asked_for_alone_makes_those_before_it(video: Video) -> None:
    made = video.stages().montage()
    assert video.entered == dict.fromkeys(VIDEO_STAGES, 1)
    assert [(result.stage, result.reused) for result in made.all_results] == [(stage, False) for stage in VIDEO_STAGES]


def test_what_another_process_finished_is_found_by_its_key(video: Video) -> None:
    first = video.stages().detections()
    made = video.stages().montage()
    assert [result.reused for result in made.all_results] == [True, True, True, False]
    assert made.detections.result.key == first.result.key


def test_a_retry_in_the_same_process_looks_at_a_recording_that_changed_again(video: Video) -> None:
    stages = video.stages()
    before = stages.detections()
    with video.path.open("ab") as file:
        file.write(bytes(64))  # a player ignores what follows the last box
    with pytest.raises(FileInUse, match="changed after it was fingerprinted"):
        stages.montage()
    made = stages.montage()
    assert made.detections.content.full != before.content.full
    assert video.entered["fingerprint"] == 2


def test_a_stage_takes_the_results_of_the_stages_that_the_registry_names() -> None:
    for stage in VIDEO_STAGES:
        enter = getattr(module, stage)
        assert list(inspect.signature(enter).parameters)[1:] == list(spec_of(stage).depends_on or ("video_key",))
        for name in spec_of(stage).depends_on:
            taken = get_type_hints(enter)[name]
            assert taken is get_type_hints(getattr(module, name))["return"]
