"""What a person changes, and what is recomputed: the promise of the README, line by line, on real files."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from content_pipeline import stage as registry
from content_pipeline.execution.outcome import Outcome
from content_pipeline.manifest.database import open_engine
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.processing import ALL, Project, computed

NAME = "game.mp4"
MIB = 1 << 20
SHORT: dict[str, Any] = {"detection__event_lookback_s": 0.5, "processing__context_padding_s": 0.2}


@pytest.fixture
def processed(project: Project, samples_folder: Path) -> Project:
    """A project whose one recording, with three bursts, has just been processed."""
    recording = samples.recording(samples_folder, "bursts.mp4", seconds=16, bursts=((3, 4), (8, 9), (13, 14)))
    shutil.copy(recording, project.library / NAME)
    first = project.process(**SHORT)[NAME]
    assert computed(first) == set(ALL)
    assert first.facts["clips"] == 3
    return project


def again(project: Project, **changed: Any) -> Outcome:
    return project.process(**{**SHORT, **changed})[NAME]


def test_nothing_is_done_twice(processed: Project) -> None:
    assert computed(again(processed)) == set()


def test_a_touched_file_costs_nothing(processed: Project) -> None:
    os.utime(processed.library / NAME)
    assert computed(again(processed)) == set()


def test_a_renamed_or_moved_file_costs_nothing(processed: Project) -> None:
    (processed.library / "elsewhere").mkdir()
    (processed.library / NAME).rename(processed.library / "elsewhere" / "renamed.mp4")
    outcomes = processed.process(**SHORT, library__recursive=True)
    assert computed(outcomes["renamed.mp4"]) == set()


def test_a_copy_costs_nothing_and_shares_the_results(processed: Project) -> None:
    shutil.copy(processed.library / NAME, processed.library / "copy.mp4")
    outcomes = processed.process(**SHORT)
    assert computed(outcomes["copy.mp4"]) == set()
    assert outcomes["copy.mp4"].key == outcomes[NAME].key
    assert outcomes["copy.mp4"].outputs == outcomes[NAME].outputs


def test_an_edit_between_the_samples_recomputes_everything(project: Project, samples_folder: Path) -> None:
    recording = samples.recording(samples_folder, "bursts.mp4", seconds=16, bursts=((3, 4), (8, 9), (13, 14)))
    padding = os.urandom(40 * MIB)
    box = (len(padding) + 8).to_bytes(4, "big") + b"free" + padding
    file = project.library / NAME
    file.write_bytes(recording.read_bytes() + box)
    assert computed(again(project)) == set(ALL)
    with file.open("r+b") as handle:
        handle.seek(14 * MIB)
        handle.write(os.urandom(3 * MIB))
    assert computed(again(project)) == set(ALL)


@pytest.mark.parametrize(
    "changed",
    [
        {"detection__rms_threshold": 0.12},
        {"detection__sensitivity": 2.0},
        {"processing__context_padding_s": 0.4},
        {"processing__merge_gap_s": 6.0},
        {"processing__max_segment_duration_s": 1.0},
        {"output__order": "score"},
        {"output__max_segments": 2},
        {"output__max_duration_s": 3.0},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_changed_decision_decodes_nothing(processed: Project, changed: Any) -> None:
    done = computed(again(processed, **changed))
    assert "detections" in done
    assert done <= {"detections", "montage"}


def test_clips_that_stay_the_same_are_reused(processed: Project) -> None:
    fewer = again(processed, output__max_segments=2)
    assert computed(fewer) == {"detections", "montage"}
    assert (fewer.facts["clips"], fewer.facts["clips_reused"]) == (2, 2)


@pytest.mark.parametrize(
    "changed",
    [{"render__crf": 30}, {"render__preset": "ultrafast"}, {"render__fps": 25.0}],
    ids=lambda changed: next(iter(changed)),
)
def test_a_changed_encoder_renders_only(processed: Project, changed: Any) -> None:
    encoded = again(processed, render__mode="encode")
    assert computed(encoded) == {"montage"}
    changed_again = again(processed, render__mode="encode", **changed)
    assert computed(changed_again) == {"montage"}
    assert changed_again.facts["clips_reused"] == 0


def test_the_former_settings_cost_nothing(processed: Project) -> None:
    other = {"detection__rms_threshold": 0.2, "render__crf": 30}
    assert computed(again(processed, **other)) == {"detections", "montage"}
    back = again(processed)
    # The published files follow the settings; putting them back is all there is to do.
    assert computed(back) == set()
    assert back.written
    assert computed(again(processed)) == set()


def test_settings_that_no_stage_reads_cost_nothing(processed: Project) -> None:
    assert computed(again(processed, workers=1, render__time_limit_s=900, limits__max_streams=10)) == set()


def test_a_deleted_output_comes_back(processed: Project) -> None:
    montage = Path(again(processed).outputs[0])
    before = montage.read_bytes()
    montage.unlink()
    back = again(processed)
    assert (computed(back), back.written) == (set(), (str(montage),))
    assert montage.read_bytes() == before


@pytest.mark.parametrize(("stage", "file"), [("energy", "curves.npz"), ("detections", "detections.json")])
def test_a_damaged_artifact_is_made_again_once_it_is_needed(processed: Project, stage: str, file: str) -> None:
    (damaged,) = (processed.settings().state_dir / "artifacts" / stage).rglob(file)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert computed(again(processed)) == set()
    next(processed.output.glob("*.mp4")).unlink()
    assert computed(again(processed)) == {stage}


def test_new_code_that_makes_the_same_recomputes_that_stage_only(
    processed: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stage in ("energy", "detections", "montage"):
        newer = replace(registry.spec_of(stage), version=registry.spec_of(stage).version + 1)
        with monkeypatch.context() as patch:
            patch.setitem(registry._BY_NAME, stage, newer)
            assert computed(again(processed)) == {stage}


def test_force_does_everything_again(processed: Project) -> None:
    assert computed(processed.process(force=True, **SHORT)[NAME]) == set(ALL)


def test_force_does_each_stage_once(processed: Project) -> None:
    artifacts = processed.settings().state_dir / "artifacts"
    before = {path: path.stat().st_ino for path in artifacts.glob("*/*/*")}
    outcome = processed.process(force=True, **SHORT)[NAME]
    assert outcome.facts["clips_reused"] == 0
    after = {path: path.stat().st_ino for path in artifacts.glob("*/*/*")}
    assert before.keys() == after.keys()
    assert all(before[path] != after[path] for path in before)


def test_a_copy_that_was_overwritten_never_speaks_for_the_other(processed: Project, samples_folder: Path) -> None:
    shutil.copy(processed.library / NAME, processed.library / "copy.mp4")
    processed.process(**SHORT)
    other = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    shutil.copy(other, processed.library / "copy.mp4")
    outcomes = processed.process(**SHORT, render__crf=20)
    assert outcomes[NAME].facts["clips"] == 3
    assert outcomes["copy.mp4"].facts["clips"] == 1
    assert outcomes["copy.mp4"].key != outcomes[NAME].key
    assert computed(processed.process(**SHORT, render__crf=20)[NAME]) == set()


def test_another_output_folder_is_filled(processed: Project, tmp_path: Path) -> None:
    elsewhere = again(processed, output_dir=tmp_path / "elsewhere")
    assert computed(elsewhere) == set()
    assert len(list((tmp_path / "elsewhere").iterdir())) == 4


def test_a_bit_rate_joins_anew_and_cuts_nothing(processed: Project) -> None:
    joined = again(processed, render__audio_bitrate_kbps=128)
    assert computed(joined) == {"montage"}
    assert joined.facts["clips_reused"] == 3


def test_an_output_that_is_a_hard_link_into_the_cache_becomes_a_file_of_its_own(processed: Project) -> None:
    """As an earlier version published them."""
    montage = Path(again(processed).outputs[0])
    (cached,) = (processed.settings().state_dir / "artifacts" / "montage").rglob("montage.mp4")
    os.utime(cached, ns=(montage.stat().st_atime_ns, montage.stat().st_mtime_ns))
    montage.unlink()
    os.link(cached, montage)
    assert again(processed).written == (), "whoever links a file of ours may"
    engine = open_engine(processed.settings().manifest_url)
    with engine.begin() as connection:
        results = json.loads(connection.exec_driver_sql("SELECT results FROM job_items").scalar_one())
        del results["own_copies"]
        connection.exec_driver_sql("UPDATE job_items SET results = ?", (json.dumps(results),))
    upgraded = again(processed)
    assert (computed(upgraded), upgraded.written) == (set(), (str(montage),))
    assert (montage.stat().st_nlink, cached.stat().st_nlink) == (1, 1)
    assert montage.read_bytes() == cached.read_bytes()
    assert again(processed).written == ()
