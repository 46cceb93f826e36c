"""`content-ai evaluate` as a person types it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from content_pipeline_tests.helpers import samples

MEASURES = {"event_precision", "event_recall", "event_f1", "time_f1", "false_events_quiet", "montage_share"}
BURSTS = ((6, 10), (20, 24))
CLASSIC = ("--set", "detection.adaptive_threshold=false", "--set", "detection.rms_threshold=0.02")


def evaluate(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "content_pipeline.cli", "evaluate", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def labels(samples_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labelled")
    for name, seconds, bursts in (("judged.mp4", 30, BURSTS), ("calm.mp4", 20, ())):
        shutil.copy2(
            samples.recording(samples_folder, name, seconds=seconds, size=(160, 90), bursts=bursts), folder / name
        )
    path = folder / "labels.json"
    clips = [{"file": "judged.mp4", "fights": [*BURSTS]}, {"file": "calm.mp4", "fights": []}]
    path.write_text(json.dumps({"clips": clips}))
    return path


def document(*arguments: object, cwd: Path) -> dict[str, Any]:
    done = evaluate(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def test_the_document_has_every_measure_for_all_clips_and_for_each(labels: Path, tmp_path: Path) -> None:
    found = document("--labels", labels, cwd=tmp_path)

    assert found.keys() == {*MEASURES, "clips"}
    assert (found["event_precision"], found["event_recall"], found["event_f1"]) == (1.0, 1.0, 1.0)
    assert found["time_f1"] > 0.95
    assert found["montage_share"] > 0.95
    assert found["false_events_quiet"] == 0
    fighting, quiet = found["clips"]
    assert fighting.keys() == quiet.keys() == {*MEASURES, "file"}
    assert (fighting["file"], fighting["event_f1"], fighting["false_events_quiet"]) == ("judged.mp4", 1.0, None)
    assert quiet == {**dict.fromkeys(MEASURES), "file": "calm.mp4", "false_events_quiet": 0}
    assert list(tmp_path.iterdir()) == []


def test_settings_preset_and_level_are_judged_as_given(labels: Path, tmp_path: Path) -> None:
    usual = document("--labels", labels, cwd=tmp_path)

    assert document("--labels", labels, "--gain-db", -24, cwd=tmp_path) == usual
    strict = document("--labels", labels, "--set", "detection.sensitivity=100", cwd=tmp_path)
    assert (strict["event_recall"], strict["montage_share"]) == (0.0, 0.0)
    classic = ("--labels", labels, "--preset", "classic", *CLASSIC)
    assert document(*classic, cwd=tmp_path)["event_recall"] > 0
    assert document(*classic, "--gain-db", -24, cwd=tmp_path)["event_recall"] == 0


def test_the_table_says_when_an_empty_montage_counts(labels: Path, tmp_path: Path) -> None:
    usual = evaluate("--labels", labels, cwd=tmp_path)
    assert "calm.mp4" in usual.stdout
    assert "count as a share of 0" not in usual.stdout

    strict = evaluate("--labels", labels, "--set", "detection.sensitivity=100", cwd=tmp_path)
    assert "1 clip with fights gave an empty montage, which counts as a share of 0" in strict.stdout


def test_a_long_name_takes_one_line_of_the_table_and_no_quiet_clip_means_no_number(
    samples_folder: Path, tmp_path: Path
) -> None:
    name = f"{'a-long-evening-of-play-' * 3}part-2.mp4"
    judged = samples.recording(samples_folder, "judged.mp4", seconds=30, size=(160, 90), bursts=BURSTS)
    shutil.copy2(judged, tmp_path / name)
    (tmp_path / "labels.json").write_text(json.dumps({"clips": [{"file": name, "fights": [*BURSTS]}]}))

    shown = evaluate("--labels", tmp_path / "labels.json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    _above, header, _rule, clip, _rule, total, *notes = shown.stdout.splitlines()
    assert clip.startswith("a-long-evenin") and "…" in clip and "part-2.mp4 " in clip
    assert total.split()[-2] == "0"
    assert max(map(len, (header, clip, total))) <= 80
    assert notes[-1].startswith("precision: ") and "recall: " in notes[-1]
    assert document("--labels", tmp_path / "labels.json", cwd=tmp_path)["false_events_quiet"] == 0


def test_what_cannot_be_judged_is_one_clean_line_and_an_exit_code(samples_folder: Path, tmp_path: Path) -> None:
    broken, labels = tmp_path / "broken.mp4", tmp_path / "labels.json"
    broken.write_text("this is not a video")
    labels.write_text(json.dumps({"clips": [{"file": "broken.mp4", "fights": []}]}))
    for arguments, code, said in (
        (("--labels", tmp_path / "nowhere.json"), 2, "cannot be read"),
        (("--labels", broken), 2, "is not JSON"),
        (("--labels", labels), 1, "broken.mp4"),
        (("--labels", labels, "--gain-db", "nan"), 2, "decibels"),
        (("--labels", labels, "--preset", "best"), 2, "detection.preset"),
        ((), 2, "--labels"),
    ):
        done = evaluate(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (code, ""), arguments
        assert said in done.stderr
        assert "Traceback" not in done.stderr
