"""The command is killed at every named point; the plain command again ends right, and nothing finished is redone."""

import json
import shutil
from pathlib import Path

import pytest

from content_pipeline.failpoints import CALIBRATION_POINTS, PROCESSING_POINTS
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.helpers import samples

# Which stages must be found done after a kill at a point. Before a stage is sealed nothing is promised of it.
FINISHED = {
    "fingerprint_sealed": {"fingerprint"},
    "energy_sealed": {"fingerprint", "energy"},
    "detections_sealed": {"fingerprint", "energy", "detections"},
    "clip_sealed": {"fingerprint", "energy", "detections"},
    "montage_sealed": {"fingerprint", "energy", "detections", "montage"},
    "staged": {"fingerprint", "energy", "detections", "montage"},
    "announced": {"fingerprint", "energy", "detections", "montage"},
    "published": {"fingerprint", "energy", "detections", "montage"},
    "run_ended": {"fingerprint", "energy", "detections", "montage"},
    "before_commit": {"fingerprint", "energy", "detections", "montage"},
    "committed": {"fingerprint", "energy", "detections", "montage"},
}


SLICE = ("published",)


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, marks=[pytest.mark.chaos_slice] if point in SLICE else []) for point in PROCESSING_POINTS],
)
def test_a_kill_loses_nothing_and_repeats_nothing(point: str, tmp_path: Path, samples_folder: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    shutil.copy2(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), library / "game.mp4")
    command = ("process", "-i", library, "--json", "--set", "library.settle_s=0")
    killed = content_ai(*command, cwd=tmp_path, env={"CONTENT_AI_KILL_AT": point})
    assert killed.returncode == -9, killed.stderr

    again = content_ai(*command, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    (row,) = json.loads(again.stdout)["videos"]
    assert row["status"] == "succeeded"
    assert all(Path(path).is_file() for path in row["outputs"])
    reused = {stage for stage, how in row["stages"].items() if how == "reused"}
    assert FINISHED.get(point, set()) <= reused
    if point in ("montage_sealed", "staged", "announced"):  # made once, and only published anew
        (artifact,) = (tmp_path / ".content-ai" / "artifacts" / "montage").glob("*/*")
        assert artifact.stat().st_mtime < Path(row["outputs"][0]).parent.stat().st_mtime

    checked = content_ai("queue", "check", "--json", cwd=tmp_path)
    assert json.loads(checked.stdout) == {"violations": []}
    leftovers = [path for path in (tmp_path / "output").iterdir() if path.name.startswith(".")]
    third = content_ai(*command, cwd=tmp_path)
    assert set(json.loads(third.stdout)["videos"][0]["stages"].values()) == {"reused"}
    assert leftovers == []


@pytest.mark.parametrize("point", CALIBRATION_POINTS)
def test_a_killed_calibration_is_applied_whole_or_not_at_all(point: str, tmp_path: Path, samples_folder: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    shutil.copy2(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), library / "game.mp4")
    process = ("process", "-i", library, "--json", "--set", "library.settle_s=0")
    assert content_ai(*process, cwd=tmp_path).returncode == 0

    tune = ("tune", "-i", library, "--setting", "rms_threshold", "--values", "0.05", "--json")
    killed = content_ai(*tune, "--apply", cwd=tmp_path, env={"CONTENT_AI_KILL_AT": point})
    assert killed.returncode == -9, killed.stderr
    now = json.loads(content_ai(*tune, cwd=tmp_path).stdout)["now"]
    assert now["calibrated"] == (point == "committed")

    again = content_ai(*tune, "--apply", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert json.loads(again.stdout)["applied"]["value"] == 0.05
    first, second = (json.loads(content_ai(*process, cwd=tmp_path).stdout)["videos"][0]["stages"] for _ in range(2))
    assert (first["energy"], first["detections"]) == ("reused", "computed")
    assert set(second.values()) == {"reused"}
    assert json.loads(content_ai("queue", "check", "--json", cwd=tmp_path).stdout) == {"violations": []}
