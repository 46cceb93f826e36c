"""`content-ai tune` as a person types it: a table, a target, applying and taking back, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.helpers import samples

SHORT = ("--set", "library.settle_s=0", "--set", "detection.event_lookback_s=0.5")


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    """One recording, processed."""
    folder = tmp_path / "library"
    folder.mkdir()
    bursts = samples.recording(samples_folder, "three.mp4", seconds=30, bursts=((4, 6), (14, 16), (24, 26)))
    shutil.copy2(bursts, folder / "game.mp4")
    done = content_ai("process", "-i", folder, *SHORT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return folder


def tune(library: Path, *arguments: object) -> dict[str, Any]:
    done = content_ai("tune", "-i", library, "--json", *SHORT, *arguments, cwd=library.parent)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(library: Path, *arguments: object) -> tuple[int, str]:
    done = content_ai("tune", "-i", library, *arguments, cwd=library.parent)
    return done.returncode, done.stderr


def test_a_value_is_found_applied_used_and_taken_back(library: Path, tmp_path: Path) -> None:
    shown = content_ai("tune", "-i", library, *SHORT, cwd=tmp_path, env={"COLUMNS": "120"})
    assert shown.returncode == 0, shown.stderr
    assert "Now: sensitivity 2.5." in shown.stdout
    assert "moments/h" in shown.stdout and "+0 / -0" in shown.stdout
    assert "1 video, 30 s of recording" in shown.stdout
    found = tune(library, "--values", "100", "--apply")
    assert (found["value"], found["applied"]["value"], found["videos"]) == (100, 100, 1)
    assert found["remarks"] == ["100 picks nothing in any video"]

    planned = json.loads(content_ai("plan", "-i", library, "--json", *SHORT, cwd=tmp_path).stdout)
    (row,) = planned["videos"]
    assert row["stages"]["detections"] == "detection.sensitivity 2.5 -> 100.0 (calibration)"
    done = json.loads(content_ai("process", "-i", library, "--json", *SHORT, cwd=tmp_path).stdout)
    (row,) = done["videos"]
    assert {stage for stage, how in row["stages"].items() if how == "reused"} == {"fingerprint", "energy"}
    assert row["highlights"] == 0
    assert tune(library)["now"] == {"setting": "sensitivity", "value": 100, "calibrated": True}

    listed = content_ai("queue", "list", "--type", "calibration", "--json", cwd=tmp_path)
    assert [job["status"] for job in json.loads(listed.stdout)] == ["succeeded"]
    assert "calibration" in content_ai("queue", "show", library, cwd=tmp_path).stdout
    assert json.loads(content_ai("queue", "check", "--json", cwd=tmp_path).stdout) == {"violations": []}

    reset = content_ai("tune", "-i", library, "--reset", cwd=tmp_path)
    assert "detection.sensitivity 100 is no longer used" in reset.stdout
    assert tune(library)["now"] == {"setting": "sensitivity", "value": 2.5, "calibrated": False}
    assert "No calibration was applied" in content_ai("tune", "-i", library, "--reset", cwd=tmp_path).stdout


def test_a_calibration_that_counts_is_told_wherever_a_person_looks(library: Path, tmp_path: Path) -> None:
    def said(*arguments: object) -> str:
        done = content_ai(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert "alibrated" not in said("process", "-i", library, *SHORT)
    assert json.loads(said("config", "show", "--json"))["calibrations"] == []
    found = tune(library, "--montage-s", 0.01, "--values", "1,9,100", "--apply")
    assert found["value"] < 100 and found["remarks"]

    told = f"detection.sensitivity {found['value']:g}"
    note = f"Calibrated: {told} for this library; `content-ai tune -i {library} --reset` undoes it."
    assert said("process", "-i", library, *SHORT).count(note) == 1
    assert "alibrated:" not in said("process", "-i", library, *SHORT, "--set", "detection.sensitivity=2.5")
    story = said("queue", "show", library)
    assert f"applied {told} (target: 0.01 s of montage per video)\n" in story
    assert "pending -> pending: asked for by a person" in story
    assert "None" not in story
    assert f"Calibrated: {told} for {library}" in said("config", "show")
    (applied,) = json.loads(said("config", "show", "--json"))["calibrations"]
    assert (applied["library"], applied["value"], applied["counts"]) == (str(library), found["value"], True)
    assert json.loads(said("queue", "check", "--json")) == {"violations": []}

    said("tune", "-i", library, "--reset")
    assert "no longer used" in said("queue", "show", library)


def test_what_is_recommended_names_its_value_and_would_help(library: Path, tmp_path: Path) -> None:
    def said(*arguments: object) -> str:
        return content_ai("tune", "-i", library, *SHORT, *arguments, cwd=tmp_path, env={"COLUMNS": "120"}).stdout

    named = said("--values", "3")
    assert "<- chosen" in named and "<- target" not in named
    assert "`--apply` uses sensitivity 3 for this library." in named
    out_of_reach = said("--montage-s", "80")
    assert "<- target" in out_of_reach and "raise processing.max_segment_duration_s (10)" in out_of_reach
    assert "--apply" not in out_of_reach


@pytest.mark.parametrize("again", [("tune", "--values", "100", "--apply"), ("queue", "process")])
def test_a_calibration_that_is_killed_half_way_is_done_by_the_next_command(
    library: Path, tmp_path: Path, again: tuple[str, ...]
) -> None:
    command = ("tune", "-i", library, "--values", "100", "--apply", *SHORT)
    killed = content_ai(*command, cwd=tmp_path, env={"CONTENT_AI_KILL_AT": "calibration_sealed"})
    assert killed.returncode == -9
    assert tune(library)["applied"] is None
    where = ("-i", library) if again[0] == "tune" else ()
    done = content_ai(*again, *where, *SHORT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert tune(library)["applied"]["value"] == 100
    (job,) = json.loads(content_ai("queue", "list", "--type", "calibration", "--json", cwd=tmp_path).stdout)
    assert (job["status"], job["claim_count"]) == ("succeeded", 2)


def test_a_reset_wins_over_a_calibration_that_was_killed_half_way(library: Path, tmp_path: Path) -> None:
    command = ("tune", "-i", library, "--values", "100", "--apply", *SHORT)
    killed = content_ai(*command, cwd=tmp_path, env={"CONTENT_AI_KILL_AT": "claimed"})
    assert killed.returncode == -9
    reset = content_ai("tune", "-i", library, "--reset", cwd=tmp_path)
    assert "No calibration was applied" in reset.stdout and "waiting calibration is cancelled" in reset.stdout
    assert content_ai("queue", "process", *SHORT, cwd=tmp_path).returncode == 0
    assert tune(library)["applied"] is None


def test_a_setting_that_makes_no_difference_is_named_and_nothing_is_proposed(library: Path, tmp_path: Path) -> None:
    fixed = ("--set", "detection.preset=classic", "--set", "detection.rms_threshold=9", "--montage-s", "5")
    for more in ((), ("--apply",)):
        said = content_ai("tune", "-i", library, *SHORT, *fixed, *more, cwd=tmp_path, env={"COLUMNS": "120"})
        assert said.returncode == 0, said.stderr
        assert "sensitivity makes no difference here" in said.stdout and "--setting rms_threshold" in said.stdout
        assert "<- target" not in said.stdout and "`--apply`" not in said.stdout
        assert ("Nothing was applied." in said.stdout) == bool(more)
    assert tune(library)["applied"] is None


def test_the_mark_of_the_target_is_whole_at_80_columns(library: Path, tmp_path: Path) -> None:
    rms = ("--setting", "rms_threshold", "--montage-s", "4")
    said = content_ai("tune", "-i", library, *SHORT, *rms, cwd=tmp_path, env={"COLUMNS": "80"}).stdout
    assert [line for line in said.splitlines() if line.rstrip().endswith("<- target")]
    assert max(map(len, said.splitlines()[2:16])) <= 80


def test_videos_that_failed_are_told_from_those_that_wait(library: Path, tmp_path: Path, samples_folder: Path) -> None:
    (library / "bad.mp4").write_text("no video")
    os.utime(library / "bad.mp4", (1, 1))
    content_ai("process", "-i", library, *SHORT, cwd=tmp_path)
    said = content_ai("tune", "-i", library, *SHORT, cwd=tmp_path).stderr
    assert "Left out: 1 video that failed." in said
    shutil.copy2(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), library / "new.mp4")
    content_ai("process", "-i", library, "--no-process", *SHORT, cwd=tmp_path)
    said = content_ai("tune", "-i", library, *SHORT, cwd=tmp_path).stderr
    assert "Left out: 1 video that failed, 1 video without curves (run `content-ai process` first)." in said


def test_a_calibration_of_another_setting_is_named_before_it_is_replaced(library: Path, tmp_path: Path) -> None:
    tune(library, "--values", "3", "--apply")
    said = content_ai("tune", "-i", library, *SHORT, "--setting", "rms_threshold", cwd=tmp_path).stderr
    assert "A calibration of sensitivity (3) is in use." in said and "`--apply` replaces it" in said
    assert "`--apply` replaces it" not in content_ai("tune", "-i", library, *SHORT, cwd=tmp_path).stderr
    found = tune(library, "--setting", "rms_threshold", "--values", "0.2", "--apply")
    assert (found["applied"]["setting"], found["applied_before"]["setting"]) == ("rms_threshold", "sensitivity")


def test_what_is_asked_wrongly_is_refused_with_a_line_that_says_so(library: Path, tmp_path: Path) -> None:
    assert refused(library, "--montage-s", 60, "--per-hour", 5)[0] == 2
    assert refused(library, "--apply")[0] == 2
    assert refused(library, "--apply", "--reset")[0] == 2
    code, said = refused(library, "--values", "1,0")
    assert code == 2 and "greater than 0" in said
    code, said = refused(library, "--setting", "rms_threshold", "--values", "50")
    assert code == 2 and "rms_threshold" in said
    code, said = refused(tmp_path / "unknown")
    assert code == 1 and "no video is known" in said and "content-ai process" in said
    assert "Traceback" not in said


def test_a_target_of_the_settings_gives_way_to_one_on_the_command_line(library: Path, tmp_path: Path) -> None:
    (tmp_path / "content-ai.toml").write_text("[calibration]\nmontage_s = 5.0\n")
    assert tune(library)["target"] == {"kind": "montage_s", "amount": 5.0}
    assert tune(library, "--per-hour", 7)["target"] == {"kind": "per_hour", "amount": 7.0}
    assert tune(library, "--values", "3")["target"] is None
