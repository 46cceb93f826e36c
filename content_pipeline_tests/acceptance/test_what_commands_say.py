"""What a new user reads: counts, states, progress, and what to do next."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.acceptance.test_queue_cli import queue
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

COMMAND = [sys.executable, "-m", "content_pipeline.cli"]
SLOW = ("--set", "render.mode=encode", "--set", "render.preset=veryslow")


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    shutil.copy2(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), folder / "game.mp4")
    return folder


def on_a_terminal(*arguments: object, cwd: Path, answer: bytes = b"") -> tuple[int, str]:
    """Run a command with stdin and stderr on a terminal; returns its exit code and what stood there."""
    main, other = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], cwd=cwd, stdin=other, stderr=other, stdout=subprocess.DEVNULL
    )
    os.close(other)
    os.write(main, answer)
    said = b""
    try:
        while chunk := os.read(main, 65536):
            said += chunk
    except OSError:  # nobody has the other end any more
        pass
    os.close(main)
    return running.wait(60), said.decode(errors="replace")


@pytest.mark.parametrize("order", [["clear"], ["clear", "--manifest"], ["prune"]], ids=" ".join)
def test_without_a_terminal_a_question_asks_for_yes(library: Path, tmp_path: Path, order: list[str]) -> None:
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    done = content_ai("queue", *order, cwd=tmp_path)
    assert done.returncode == 2
    assert "use --yes" in done.stderr
    assert queue(tmp_path, "status")["counts"]["processing"]["pending"] == 1


def test_no_is_an_answer(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    code, said = on_a_terminal("queue", "clear", cwd=tmp_path, answer=b"n\n")
    assert (code, "nothing was changed" in said) == (1, True), said
    assert queue(tmp_path, "status")["counts"]["processing"]["pending"] == 1
    assert on_a_terminal("queue", "clear", cwd=tmp_path, answer=b"y\n")[0] == 0
    assert queue(tmp_path, "status")["counts"]["processing"]["total"] == 0


def test_prune_names_all_that_it_deletes_and_takes_its_age_from_the_settings(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    code, said = on_a_terminal("queue", "prune", "--set", "schedule.keep_days=12", cwd=tmp_path, answer=b"n\n")
    question = " ".join(said.split())
    assert code == 1 and "older than 12 days" in question
    for deleted in (
        "history",
        "jobs of recordings that are gone",
        "unused artifacts",
        "logs",
        "outputs",
        "Dagster runs",
    ):
        assert deleted in question, deleted


def test_a_waiting_job_is_shown_without_a_video_key(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    said = content_ai("queue", "show", library / "game.mp4", cwd=tmp_path).stdout
    assert "pending; attempt 0 of 3" in said
    assert "None" not in said


def test_a_lost_manifest_is_told_from_a_folder_that_was_never_used(library: Path, tmp_path: Path) -> None:
    fresh = content_ai("queue", "status", cwd=tmp_path)
    assert "nothing was processed here yet" in fresh.stderr
    content_ai("process", "-i", library, cwd=tmp_path)
    for file in (tmp_path / ".content-ai").glob("queue.db*"):
        file.unlink()
    for command in (["queue", "status"], ["queue", "list"], ["plan", "-i", library]):
        lost = content_ai(*command, cwd=tmp_path)
        assert "was used before: `content-ai queue rebuild` brings it back" in lost.stderr, command
    assert "1 video and 1 job were rebuilt" in content_ai("queue", "rebuild", cwd=tmp_path).stdout
    assert content_ai("queue", "status", cwd=tmp_path).stderr == ""


def test_the_jobs_of_a_dead_worker_are_stale_and_not_in_progress(tmp_path: Path, samples_folder: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    shutil.copy2(long, library / "long.mp4")
    running = subprocess.Popen([*COMMAND, "process", "-i", str(library), "--json", *SLOW], cwd=tmp_path)
    eventually(
        lambda: any("ffmpeg" in one.name() for one in psutil.Process(running.pid).children(recursive=True)),
        "ffmpeg runs",
    )
    assert queue(tmp_path, "status")["counts"]["processing"]["running"] == 1
    running.send_signal(signal.SIGKILL)
    running.wait()

    counts = queue(tmp_path, "status")["counts"]["processing"]
    assert (counts["running"], counts["stale"], counts["total"]) == (0, 1, 1)
    said = content_ai("queue", "status", cwd=tmp_path).stdout
    assert "In Progress:          0" in said
    assert "Stale:                1" in said
    assert "`content-ai queue process` continues them" in said
    assert [job["status"] for job in queue(tmp_path, "list")] == ["stale"]
    (job,) = queue(tmp_path, "list", "--status", "stale")
    assert queue(tmp_path, "list", "--status", "running") == []
    story = queue(tmp_path, "show", job["job_id"])
    assert story["status"] == "stale"
    assert [one["to_state"] for one in story["transitions"]] == ["running"], "looking changed something"


def test_progress_is_shown_beside_a_document(library: Path, tmp_path: Path) -> None:
    done = content_ai("process", "-i", library, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["totals"]["succeeded"] == 1
    assert "[1/1] game.mp4: 1 clip, " in done.stderr
    code, said = on_a_terminal("process", "-i", library, "--json", "--force", cwd=tmp_path)
    assert code == 0
    assert "1 video " in said and "━" in said, "no bar on the terminal"


def test_the_queue_counts_its_videos_from_one_to_all(library: Path, tmp_path: Path) -> None:
    for number in (2, 3):
        (library / f"bad{number}.mp4").write_text("no video")
        os.utime(library / f"bad{number}.mp4", (1, 1))
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    done = content_ai("queue", "process", cwd=tmp_path)
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["[1/3]", "[2/3]", "[3/3]"]
    again = content_ai("process", "-i", library, cwd=tmp_path)
    assert [line.split()[0] for line in again.stderr.splitlines()] == ["[1/2]", "[2/2]"], "up to date is not counted"
    assert "not tried again, as nothing changed" in again.stdout
    content_ai("queue", "retry", cwd=tmp_path)
    one = content_ai("queue", "process", "--max-jobs", 1, cwd=tmp_path)
    assert [line.split()[0] for line in one.stderr.splitlines()] == ["[1/1]"]


def test_files_with_other_endings_are_counted_and_said(library: Path, tmp_path: Path) -> None:
    for name in ("a.ts", "b.TS", "c.flv", "notes.txt", "README", ".hidden.ts"):
        (library / name).write_text("x")
    (library / "folder.ts").mkdir()
    for command in (["process", "--no-process"], ["plan"]):
        done = content_ai(*command, "-i", library, "--json", cwd=tmp_path)
        assert "Passed over by ending: .flv 1, .ts 2. To take them too: --ext mp4,mov,mkv,avi,flv,ts" in done.stderr
        document = json.loads(done.stdout)
        assert document["passed_over"] == {".flv": 1, ".ts": 2, ".txt": 1, "": 1}
    other = tmp_path / "other"
    other.mkdir()
    for name in ("notes.txt", "README"):
        shutil.copy(library / name, other)
    empty = content_ai("plan", "-i", other, cwd=tmp_path)
    assert "No recordings (mp4, mov, mkv, avi)" in empty.stderr
    assert "Passed over by ending: without ending 1, .txt 1." in empty.stderr


def test_a_new_database_is_not_called_lost(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library, cwd=tmp_path)
    done = content_ai("process", "-i", library, "--db", "new.db", cwd=tmp_path)
    assert done.returncode == 0
    assert "lost" not in done.stderr
    assert f"The database {tmp_path}/new.db is new or empty, but {tmp_path}/.content-ai was used before" in done.stderr
    assert "1 video and 1 job were rebuilt" in done.stderr
    fresh = content_ai("process", "-i", library, "--db", "third.db", "--state-dir", "other", cwd=tmp_path)
    assert "rebuilt" not in fresh.stderr


def test_the_chosen_audio_track_is_said_where_there_are_several(
    library: Path, tmp_path: Path, samples_folder: Path
) -> None:
    two = samples.recording(samples_folder, "two.mkv", seconds=6, bursts=((2, 3),), silent_first_track=True)
    shutil.copy2(two, library / "two.mkv")
    done = content_ai("process", "-i", library, cwd=tmp_path, env={"COLUMNS": "200"})
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert "audio track 2 of 2 (energy.track=1)" in rows["two.mkv"]
    assert "audio track" not in rows["game.mp4"]
    assert "audio track 2 of 2" in content_ai("queue", "show", library / "two.mkv", cwd=tmp_path).stdout
    again = json.loads(content_ai("process", "-i", library, "--json", cwd=tmp_path).stdout)
    assert {(row["audio_track"], row["audio_tracks"]) for row in again["videos"]} == {(0, 1), (1, 2)}


def test_resume_asks_which_jobs_like_cancel_and_discard(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    assert queue(tmp_path, "cancel", "--all") == {"cancelled": 1, "stopping": 0}
    for order in ("resume", "cancel", "discard"):
        done = content_ai("queue", order, cwd=tmp_path)
        assert done.returncode == 2
        assert "--all" in done.stderr
    assert queue(tmp_path, "resume", "--pauses") == {"resumed": 0, "pauses_ended": 0}
    said = content_ai("queue", "resume", "--all", cwd=tmp_path).stdout
    assert said == "1 job resumed, 0 pauses ended: run `content-ai queue process`.\n"


def test_after_an_interruption_the_table_says_pending(tmp_path: Path, samples_folder: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    shutil.copy2(long, library / "long.mp4")
    running = subprocess.Popen(
        [*COMMAND, "process", "-i", str(library), *SLOW],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(
        lambda: any("ffmpeg" in one.name() for one in psutil.Process(running.pid).children(recursive=True)),
        "ffmpeg runs",
    )
    running.send_signal(signal.SIGINT)
    said, notes = running.communicate(timeout=60)
    assert running.returncode == 130
    row = next(line for line in said.splitlines() if line.startswith("long.mp4"))
    assert row.split()[1] == "pending"
    assert "cancelled" not in said + notes
    assert "the same command continues where it stopped" in notes
    assert [job["status"] for job in queue(tmp_path, "list")] == ["pending"]
