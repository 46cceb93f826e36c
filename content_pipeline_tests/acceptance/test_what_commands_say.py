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


def on_a_terminal(*arguments: object, cwd: Path, answer: bytes = b"", with_results: bool = False) -> tuple[int, str]:
    """Run a command with stdin and stderr on a terminal; returns its exit code and what stood there."""
    main, other = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        stdin=other,
        stderr=other,
        stdout=other if with_results else subprocess.DEVNULL,
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
    assert "not tried again, as nothing changed" in " ".join(again.stdout.split())
    content_ai("queue", "retry", cwd=tmp_path)
    one = content_ai("queue", "process", "--max-jobs", 1, cwd=tmp_path)
    assert [line.split()[0] for line in one.stderr.splitlines()] == ["[1/1]"]


def test_every_video_is_listed_at_the_end_failures_first(library: Path, tmp_path: Path) -> None:
    (library / "bad.mp4").write_text("no video")
    os.utime(library / "bad.mp4", (1, 1))
    piped = content_ai("process", "-i", library, cwd=tmp_path, env={"COLUMNS": "200"})
    rows = [line.split()[0] for line in piped.stdout.splitlines() if ".mp4 " in line]
    assert rows == ["bad.mp4", "game.mp4"]
    assert "1 succeeded, 1 failed" in piped.stdout
    shutil.copy2(library / "game.mp4", library / "same.mp4")
    _, said = on_a_terminal("process", "-i", library, cwd=tmp_path, with_results=True)
    assert "everything reused" in " ".join(said.split())
    assert "shared with" in " ".join(said.split())


def test_a_queue_in_which_nothing_waits_is_said_to_be_empty_and_makes_no_folder(library: Path, tmp_path: Path) -> None:
    done = content_ai("queue", "process", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"Nothing is waiting in {tmp_path}/.content-ai.\n")
    assert not (tmp_path / ".content-ai").exists()
    enqueued = content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    assert "1 video; nothing was processed: run `content-ai queue process`." in enqueued.stdout
    assert content_ai("queue", "process", cwd=tmp_path).returncode == 0
    assert content_ai("queue", "process", cwd=tmp_path).stdout.startswith("Nothing is waiting")


def test_sub_folders_with_recordings_that_are_not_searched_are_counted(library: Path, tmp_path: Path) -> None:
    for folder in ("may/first", "june", "notes", ".hidden"):
        (library / folder).mkdir(parents=True)
    for file in ("may/first/a.mp4", "june/b.MKV", "notes/c.txt", ".hidden/d.mp4"):
        (library / file).write_text("x")
    said = "2 sub-folders with recordings were not searched: use --recursive"
    for command in (["plan"], ["process", "--no-process"]):
        assert said in content_ai(*command, "-i", library, cwd=tmp_path).stderr
        assert "not searched" not in content_ai(*command, "-i", library, "--recursive", cwd=tmp_path).stderr
    assert "not searched" not in content_ai("plan", "-i", library / "game.mp4", cwd=tmp_path).stderr


def test_montages_in_a_sub_folder_are_no_recordings_that_were_not_searched(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library, "-o", library / "montages", cwd=tmp_path)
    assert (library / "montages" / "game.mp4").exists()
    assert "not searched" not in content_ai("plan", "-i", library, cwd=tmp_path).stderr


def test_an_emptied_library_is_said_to_be_empty_and_nothing_is_done(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    content_ai("queue", "process", cwd=tmp_path)
    (library / "game.mp4").unlink()
    for command in ("plan", "process"):
        done = content_ai(command, "-i", library, cwd=tmp_path)
        assert done.returncode == 1
        assert (
            f"{library} is empty, but the manifest knows 1 video there: is it mounted? Nothing was done." in done.stderr
        )
        assert "process the folder where they are now" in done.stderr
        assert "paused" not in done.stderr


def test_a_plan_counts_what_is_refused_and_says_when_there_is_nothing_to_do(library: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.mp4").write_text("x")
    (library / "link.mp4").symlink_to(tmp_path / "outside.mp4")
    (library / "bad.mp4").write_text("no video")
    os.utime(library / "bad.mp4", (1, 1))
    before = content_ai("plan", "-i", library, cwd=tmp_path)
    assert "3 videos: 2 to run, 1 failed;" in before.stdout
    assert "unsafe_path" in before.stdout
    content_ai("process", "-i", library, cwd=tmp_path)
    after = content_ai("plan", "-i", library, cwd=tmp_path)
    assert after.stdout.splitlines()[-1] == "3 videos: nothing to do (1 up to date, 2 failed)."


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
    rows = {line.split()[1].rstrip(":"): line for line in done.stderr.splitlines() if line}
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
