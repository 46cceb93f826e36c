"""The command as a person types it: a real process, real exit codes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

HEAVY = {"librosa", "moviepy", "av", "matplotlib", "pandas", "numba", "scipy"}


def content_ai(*arguments: object, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "content_pipeline.cli", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    shutil.copy(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), folder / "game one.mp4")
    (folder / "broken.mp4").write_text("this is not a video")
    (folder / "notes.txt").write_text("x")
    return folder


def test_the_document_has_a_row_for_every_recording(library: Path, tmp_path: Path) -> None:
    done = content_ai("process", "-i", library, "-o", tmp_path / "out", "--json", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    document = json.loads(done.stdout)
    rows = {Path(row["path"]).name: row for row in document["videos"]}
    good, broken = rows["game one.mp4"], rows["broken.mp4"]
    assert good["status"] == "succeeded"
    assert good["key"].startswith("game-one-")
    assert good["stages"] == dict.fromkeys(("fingerprint", "energy", "detections", "montage"), "computed")
    assert all(Path(path).is_file() for path in good["outputs"])
    assert (broken["status"], broken["error_code"]) == ("failed", "not_a_video")
    assert "broken.mp4" in broken["error"]
    assert broken["outputs"] == []
    assert document["totals"]["videos"] == 2
    assert document["totals"]["failed"] == 1


def test_the_closing_table_says_what_was_done_and_why_not(library: Path, tmp_path: Path) -> None:
    done = content_ai("process", "-i", library, cwd=tmp_path, env={"COLUMNS": "200"})
    assert done.returncode == 3
    assert "1 succeeded, 1 failed" in done.stdout
    assert "not_a_video" in done.stdout
    assert str(tmp_path / "output") in done.stdout
    again = content_ai("process", "-i", library / "game one.mp4", cwd=tmp_path, env={"COLUMNS": "200"})
    assert again.returncode == 0
    assert "0 stages computed, 4 reused" in again.stdout


def test_a_dry_run_and_no_process_do_no_work(library: Path, tmp_path: Path) -> None:
    for flag in ("--dry-run", "--no-process"):
        done = content_ai("process", "-i", library, flag, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert {row["status"] for row in json.loads(done.stdout)["videos"]} == {"pending"}
        assert not (tmp_path / "output").exists()
    assert not (tmp_path / ".content-ai" / "artifacts").exists()


def test_the_limit_is_kept(library: Path, tmp_path: Path) -> None:
    done = content_ai("process", "-i", library, "--limit", 1, "--dry-run", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["totals"]["videos"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["process", "-i", "nowhere"], "nowhere does not exist"),
        (["process"], "--input"),
        (["process", "-i", ".", "--order", "random"], "output.order"),
        (["process", "-i", ".", "--max-segments", "0"], "output.max_segments"),
        (["process", "-i", ".", "--rms-threshold", "x"], "rms-threshold"),
        (["process", "-i", ".", "--set", "render.crf"], "KEY=VALUE"),
        (["process", "-i", ".", "--config", "none.toml"], "none.toml"),
        (["process", "-i", ".", "--db", "mysql://x/y"], "SQLite or Postgres"),
        (["frobnicate"], "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_clear_message_and_exit_code_2(
    tmp_path: Path, samples_folder: Path, arguments: list[str], said: str
) -> None:
    shutil.copy(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), tmp_path / "a.mp4")
    done = content_ai(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_that_is_none_is_refused(library: Path, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, and long enough to be looked at")
    done = content_ai("process", "-i", library, "--db", "text.db", cwd=tmp_path)
    assert done.returncode == 2
    assert "text.db" in done.stderr
    assert (tmp_path / "text.db").read_text().startswith("this is not")


def test_an_empty_folder_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = content_ai("process", "-i", "empty", cwd=tmp_path)
    assert done.returncode == 0
    assert "No recordings" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_children_and_the_next_call_goes_on(
    number: Any, tmp_path: Path, samples_folder: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    shutil.copy(long, library / "long.mp4")
    command = [sys.executable, "-m", "content_pipeline.cli", "process", "-i", str(library), "--json"]
    running = subprocess.Popen(
        [*command, "--set", "render.mode=encode", "--set", "render.preset=veryslow"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    detections = ".content-ai/artifacts/detections/*/*/detections.json"
    eventually(lambda: running.poll() is not None or list(tmp_path.glob(detections)), "highlights were found", 120)
    assert running.poll() is None
    os.kill(running.pid, number)
    said, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    assert [row["status"] for row in json.loads(said)["videos"]] == ["pending"]
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout.split()
    assert left == []
    queued = json.loads(content_ai("queue", "list", "--json", cwd=tmp_path).stdout)
    assert [(job["status"], job["attempt_count"], job["crash_count"]) for job in queued] == [("pending", 0, 0)]
    again = content_ai("process", "-i", library, "--json", "--set", "render.mode=copy", cwd=tmp_path)
    (row,) = json.loads(again.stdout)["videos"]
    assert row["stages"] == {
        "fingerprint": "reused",
        "energy": "reused",
        "detections": "reused",
        "montage": "computed",
    }


def test_settings_are_shown_with_their_origin(tmp_path: Path) -> None:
    (tmp_path / "content-ai.toml").write_text("[render]\ncrf = 19\n")
    done = content_ai("config", "show", "--json", "--set", "output.order=score", cwd=tmp_path)
    shown = json.loads(done.stdout)
    assert shown["render.crf"] == {"value": 19, "origin": "file content-ai.toml"}
    assert shown["output.order"] == {"value": "score", "origin": "flag"}
    assert shown["render.fps"] == {"value": 30.0, "origin": "default"}
    assert [path.name for path in tmp_path.iterdir()] == ["content-ai.toml"], "looking made a manifest"


def test_a_tilde_is_the_home_folder_for_every_command(tmp_path: Path, samples_folder: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    env = {"HOME": str(home), "DAGSTER_HOME": "~/dagster"}
    done = content_ai("demo", "--folder=~/demo", cwd=elsewhere, env=env)
    assert done.returncode == 0, done.stderr
    assert (home / "demo" / "montages" / "bangs.mp4").is_file()
    assert (home / "dagster" / "dagster.yaml").is_file()
    assert f"home {home}/dagster" in content_ai("doctor", cwd=elsewhere, env=env).stdout
    clip = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    shutil.copy(clip, home / "clip.mp4")
    (home / "labels.json").write_text('{"clips": [{"file": "clip.mp4", "fights": [[2, 3]]}]}')
    done = content_ai("evaluate", "--labels=~/labels.json", cwd=elsewhere, env=env)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in elsewhere.iterdir()] == [".content-ai"]


def test_the_doctor_finds_this_machine_well(tmp_path: Path) -> None:
    done = content_ai("doctor", "--json", cwd=tmp_path)
    findings = json.loads(done.stdout)
    assert done.returncode == 0, findings
    assert {finding["verdict"] for finding in findings} <= {"ok", "warning"}


def test_the_doctor_finds_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    done = content_ai("doctor", "--json", "--state-dir", "file/below", cwd=tmp_path)
    assert done.returncode == 1


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.argv = ['content-ai', '--help']; from content_pipeline.cli.main import cli\n"
        "cli.main(['--help'], standalone_mode=False)",
        "from content_pipeline.definitions import defs; import dagster\ndefs().resolve_all_job_defs()",
    ],
    ids=["--help", "the code location"],
)
def test_what_is_heavy_is_not_loaded_before_it_is_needed(tmp_path: Path, code: str) -> None:
    check = f"{code}\nimport sys\nprint('LOADED', sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", check], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "LOADED []" in done.stdout, done.stdout + done.stderr
