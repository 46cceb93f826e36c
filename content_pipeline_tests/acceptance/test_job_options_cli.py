"""A job keeps what it was asked for, whoever works on it and from wherever; and every run says why."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

ALL = ("fingerprint", "energy", "detections", "montage")
NOW = ("--set", "library.settle_s=0")


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    """One recording with two highlights far apart."""
    folder = tmp_path / "library"
    folder.mkdir()
    game = samples.recording(samples_folder, "two.mp4", seconds=40, bursts=((10, 11), (30, 31)))
    shutil.copy2(game, folder / "game.mp4")
    return folder


def run(*arguments: object, cwd: Path, code: int = 0, **env: str) -> dict:
    done = content_ai(*arguments, "--json", cwd=cwd, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def process(library: Path, *arguments: object, cwd: Path, code: int = 0, **env: str) -> dict:
    """The only video's row."""
    (row,) = run("process", "-i", library, *NOW, *arguments, cwd=cwd, code=code, **env)["videos"]
    return row


def clips_in(folder: Path) -> int:
    (document,) = folder.glob("*.json")
    return len(json.loads(document.read_text())["cuts"])


def computed(row: dict) -> set[str]:
    return {stage for stage, how in row["stages"].items() if how == "computed"}


def job_of(cwd: Path, *state: object) -> dict:
    (job,) = run("queue", "list", "--type", "processing", *state, cwd=cwd)
    return job


def test_what_is_registered_is_done_as_asked_from_any_folder(library: Path, tmp_path: Path) -> None:
    process(library, "-o", "foo", "--max-segments", 1, "--no-process", cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    state = ("--state-dir", tmp_path / ".content-ai")
    (row,) = run("queue", "process", *state, cwd=elsewhere, CONTENT_AI_OUTPUT__MAX_SEGMENTS="7")["videos"]
    assert row["status"] == "succeeded"
    assert clips_in(tmp_path / "foo") == 1
    assert not (tmp_path / "output").exists() and not (elsewhere / "output").exists()
    job = job_of(elsewhere, *state)
    assert job["options"] == {"output_dir": str(tmp_path / "foo"), "settings": {"output.max_segments": 1}}
    told = content_ai("queue", "show", job["job_id"], *state, cwd=elsewhere).stdout
    assert f"asked for: output folder {tmp_path / 'foo'}; output.max_segments 1" in told

    plain = process(library, cwd=tmp_path)  # and the row says with what it was made
    assert plain["reasons"] == {
        "detections": "output.max_segments 1 -> 12",
        "montage": f"output folder {tmp_path / 'foo'} -> {tmp_path / 'output'}",
    }
    assert (clips_in(tmp_path / "output"), clips_in(tmp_path / "foo")) == (2, 1)


def test_after_an_interruption_the_queue_goes_on_as_asked(library: Path, tmp_path: Path) -> None:
    slow = ("--set", "render.mode=encode", "--set", "render.preset=slower")
    command = [sys.executable, "-m", "content_pipeline.cli", "process", "-i", library, *NOW, *slow]
    started = subprocess.Popen(
        [*map(str, command), "-o", "foo", "--max-segments", "1"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    eventually(
        lambda: any((tmp_path / ".content-ai" / "artifacts" / "detections").glob("*/*")), "highlights were found"
    )
    os.killpg(started.pid, signal.SIGINT)
    assert started.wait(60) == 130
    (row,) = run("queue", "process", cwd=tmp_path)["videos"]
    assert row["status"] == "succeeded"
    assert clips_in(tmp_path / "foo") == 1
    assert not (tmp_path / "output").exists()
    assert job_of(tmp_path)["options"]["settings"]["render.preset"] == "slower"


def test_a_threshold_that_was_given_is_kept_against_a_calibration(library: Path, tmp_path: Path) -> None:
    process(library, cwd=tmp_path)
    done = content_ai(
        "tune", "-i", library, "--set", "calibration.values=100", "--montage-s", 1, "--apply", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    process(library, "--rms-threshold", 0.2, "--no-process", cwd=tmp_path)
    assert job_of(tmp_path)["options"]["settings"] == {"calibration.use": False, "detection.rms_threshold": 0.2}
    run("queue", "process", cwd=tmp_path)
    planned = run("plan", "-i", library, "--rms-threshold", 0.2, cwd=tmp_path)
    assert planned["totals"]["up_to_date"] == 1
    assert "(calibration)" in run("plan", "-i", library, cwd=tmp_path)["videos"][0]["why"]


def test_a_force_is_not_forgotten_when_nothing_is_processed_at_once(library: Path, tmp_path: Path) -> None:
    process(library, cwd=tmp_path)
    row = process(library, "--force", "--no-process", cwd=tmp_path)
    assert row["why"] == "dirty: forced"
    (row,) = run("queue", "process", cwd=tmp_path)["videos"]
    assert computed(row) == set(ALL)
    assert job_of(tmp_path)["force_id"] is None
    assert computed(process(library, cwd=tmp_path)) == set()


@pytest.mark.parametrize(
    ("point", "command", "finished"),
    [
        ("claimed", "queue process", set()),
        ("energy_sealed", "process", {"fingerprint", "energy"}),
        ("staged", "queue process", {"fingerprint", "energy", "detections"}),
    ],
)
def test_a_force_survives_a_kill_and_repeats_nothing(
    library: Path, tmp_path: Path, point: str, finished: set[str], command: str
) -> None:
    process(library, cwd=tmp_path)
    artifacts = tmp_path / ".content-ai" / "artifacts"
    before = {path: path.stat().st_ino for path in artifacts.glob("*/*/*")}
    killed = content_ai("process", "-i", library, *NOW, "--force", cwd=tmp_path, env={"CONTENT_AI_KILL_AT": point})
    assert killed.returncode == -signal.SIGKILL
    made = {path for path in artifacts.glob("*/*/*") if before[path] != path.stat().st_ino}
    kept = {path: path.stat().st_ino for path in made}

    if command == "process":
        row = process(library, cwd=tmp_path)
        assert "with --force" in row["why"]
    else:
        (row,) = run("queue", "process", cwd=tmp_path)["videos"]
    assert row["status"] == "succeeded"
    assert finished <= set(ALL) - computed(row)
    after = {path: path.stat().st_ino for path in artifacts.glob("*/*/*")}
    assert after.keys() == before.keys()
    assert all(after[path] != before[path] for path in before), "everything was made anew"
    assert all(after[path] == inode for path, inode in kept.items()), "and nothing twice"
    assert computed(process(library, cwd=tmp_path)) == set()


def test_the_latest_command_counts_for_what_waits_and_says_so(library: Path, tmp_path: Path) -> None:
    process(library, "-o", "foo", "--max-segments", 1, "--no-process", cwd=tmp_path)
    same = process(library, "-o", "foo", "--max-segments", 1, "--no-process", cwd=tmp_path)
    assert same["why"] == "already pending"
    (planned,) = run("plan", "-i", library, "-o", "bar", cwd=tmp_path)["videos"]
    now = f"now with output.max_segments 1 -> 12, output folder {tmp_path / 'foo'} -> {tmp_path / 'bar'}"
    assert planned["why"] == f"already pending; {now}"
    row = process(library, "-o", "bar", cwd=tmp_path)
    assert (row["status"], row["why"]) == ("succeeded", planned["why"])
    assert clips_in(tmp_path / "bar") == 2
    assert not (tmp_path / "foo").exists()


@pytest.mark.parametrize("who", ["the earlier", "the later"])
def test_a_video_that_was_made_as_a_later_command_asked_is_not_called_a_success(
    library: Path, tmp_path: Path, who: str
) -> None:
    """The earlier command is stopped once its job is enqueued; the later one asks for other clips somewhere else."""
    arguments = ["process", "-i", str(library), *NOW, "-o", "foo", "--max-segments", "1", "--json"]
    environment = {**os.environ, "CONTENT_AI_KILL_AT": "stop:enqueued"}
    earlier = subprocess.Popen(
        [sys.executable, "-m", "content_pipeline.cli", *arguments],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.waitpid(earlier.pid, os.WUNTRACED)
    only_asked = ("--no-process",) if who == "the earlier" else ()
    process(library, "-o", "bar", *only_asked, cwd=tmp_path)
    os.kill(earlier.pid, signal.SIGCONT)
    said, _ = earlier.communicate(timeout=120)
    (row,) = json.loads(said)["videos"]
    assert row["status"] == "superseded"
    assert f"output.max_segments 1 -> 12, output folder {tmp_path / 'foo'} -> {tmp_path / 'bar'}" in row["note"]
    assert earlier.returncode == 3
    assert clips_in(tmp_path / "bar") == 2
    assert not (tmp_path / "foo").exists()
    assert process(library, "-o", "foo", "--max-segments", 1, cwd=tmp_path)["status"] == "succeeded"
    assert clips_in(tmp_path / "foo") == 1


def test_two_output_folders_both_get_the_montage_and_nothing_is_computed_for_the_second(
    library: Path, tmp_path: Path
) -> None:
    process(library, "-o", "one", cwd=tmp_path)
    row = process(library, "-o", "two", cwd=tmp_path)
    assert row["why"] == f"dirty: output folder {tmp_path / 'one'} -> {tmp_path / 'two'}"
    assert computed(row) <= {"montage"}
    assert clips_in(tmp_path / "one") == clips_in(tmp_path / "two") == 2
    assert len(list((tmp_path / ".content-ai" / "artifacts" / "montage").glob("*/*"))) == 1


def test_a_limit_that_failed_a_video_is_raised_by_the_next_command(library: Path, tmp_path: Path) -> None:
    row = process(library, "--set", "limits.max_duration_s=10", cwd=tmp_path, code=3)
    assert row["error_code"] == "limit_exceeded"
    again = process(library, "--set", "limits.max_duration_s=10", cwd=tmp_path, code=3)
    assert (again["status"], again["why"]) == ("failed", "")
    row = process(library, cwd=tmp_path)
    assert row["why"] == "failed before; limits.max_duration_s 10.0 -> 172800.0"
    assert row["status"] == "succeeded"


def test_a_retry_keeps_what_was_asked_and_says_which_flags_do_not_count(library: Path, tmp_path: Path) -> None:
    process(library, "-o", "foo", "--set", "limits.max_duration_s=10", cwd=tmp_path, code=3)
    assert run("queue", "retry", cwd=tmp_path) == {"retried": 1}
    done = content_ai("queue", "process", "--set", "limits.max_duration_s=100", cwd=tmp_path)
    assert "limits.max_duration_s: jobs of `content-ai process` keep its settings" in done.stderr
    assert job_of(tmp_path)["error_code"] == "limit_exceeded"


def test_options_that_nobody_understands_fail_their_job_and_no_other(
    library: Path, tmp_path: Path, samples_folder: Path
) -> None:
    short = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    shutil.copy2(short, library / "short.mp4")
    run("process", "-i", library, *NOW, "--no-process", cwd=tmp_path)
    with sqlite3.connect(tmp_path / ".content-ai" / "queue.db") as database:
        junk = '{"output_dir": "/o", "settings": {"output.gone": 1}}'
        database.execute("UPDATE job_items SET options = ? WHERE subject LIKE '%game.mp4'", [junk])
    rows = {Path(row["path"]).name: row for row in run("queue", "process", cwd=tmp_path, code=3)["videos"]}
    assert (rows["game.mp4"]["status"], rows["game.mp4"]["error_code"]) == ("failed", "bad_settings")
    assert rows["short.mp4"]["status"] == "succeeded"
    assert process(library / "game.mp4", "--set", "render.crf=20", cwd=tmp_path)["status"] == "succeeded"


def test_why_each_video_runs_is_said_as_by_the_plan(library: Path, tmp_path: Path) -> None:
    assert process(library, cwd=tmp_path)["why"] == "new"
    flags = ("--rms-threshold", 0.15)
    (planned,) = run("plan", "-i", library, *flags, cwd=tmp_path)["videos"]
    done = content_ai("process", "-i", library, *NOW, *flags, cwd=tmp_path, env={"COLUMNS": "200"})
    why = "dirty: detection.rms_threshold 0.1 -> 0.15"
    assert planned["why"] == why
    assert f"[{why}]" in done.stderr


PLANNED = {
    ("--rms-threshold", 0.2): "dirty: detection.rms_threshold 0.1 -> 0.2",
    ("--max-segments", 1, "--max-duration", 30): (
        "dirty: output.max_duration_s 90.0 -> 30.0, output.max_segments 12 -> 1"
    ),
    ("--order", "score"): "dirty: output.order chronological -> score",
    ("--force",): "dirty: forced",
    ("--limit", 1, "--workers", 2, "--resume", "--no-process"): "",
}


def test_plan_takes_the_flags_of_process_and_changes_nothing(library: Path, tmp_path: Path) -> None:
    process(library, cwd=tmp_path)
    for flags, why in PLANNED.items():
        (planned,) = run("plan", "-i", library, *flags, cwd=tmp_path)["videos"]
        assert planned["why"] == why
    assert process(library, cwd=tmp_path)["reasons"] == {}


def test_a_limit_takes_the_next_that_need_work(tmp_path: Path, samples_folder: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    short = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    for number in range(3):
        shutil.copy(short, library / f"{number}.mp4")
        with (library / f"{number}.mp4").open("ab") as file:
            file.write(str(number).encode())
    command = ("-i", library, *NOW, "--limit", 2)
    planned = run("plan", *command, cwd=tmp_path)
    assert [Path(row["path"]).name for row in planned["videos"]] == ["0.mp4", "1.mp4"]
    assert planned["totals"]["left_out"] == 1
    for worked, left_out in ((["0.mp4", "1.mp4"], 1), (["2.mp4"], 0)):
        document = run("process", *command, cwd=tmp_path)
        assert [Path(row["path"]).name for row in document["videos"] if row["why"]] == worked
        assert document["left_out"] == left_out
