"""The queue as a person steers it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.media.source import Signature
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

MIB = 1 << 20


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    shutil.copy2(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), folder / "good.mp4")
    (folder / "bad.mp4").write_text("this is no video")
    os.utime(folder / "bad.mp4", (1, 1))
    return folder


def queue(cwd: Path, *arguments: object) -> Any:
    done = content_ai("queue", *arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_day_in_the_life_of_a_queue(library: Path, tmp_path: Path) -> None:
    listed = content_ai("process", "-i", library, "--no-process", "--json", cwd=tmp_path)
    assert listed.returncode == 0
    assert queue(tmp_path, "status")["counts"]["processing"]["pending"] == 2

    worked = content_ai("queue", "process", "--json", cwd=tmp_path)
    assert worked.returncode == 3
    totals = json.loads(worked.stdout)["totals"]
    assert (totals["succeeded"], totals["failed"]) == (1, 1)
    counts = queue(tmp_path, "status")["counts"]["processing"]
    assert (counts["succeeded"], counts["failed"], counts["total"]) == (1, 1, 2)

    (failed,) = queue(tmp_path, "list", "--status", "failed")
    assert failed["error_code"] == "not_a_video"
    story = queue(tmp_path, "show", failed["job_id"])
    assert [one["to_state"] for one in story["transitions"]] == ["running", "failed"]
    assert story["attempts"][0]["outcome"] == "failed"

    assert queue(tmp_path, "retry", "--error-code", "disk_full") == {"retried": 0}
    assert queue(tmp_path, "retry") == {"retried": 1}
    assert queue(tmp_path, "cancel", failed["job_id"]) == {"cancelled": 1, "stopping": 0}
    assert queue(tmp_path, "resume", "--all")["resumed"] == 1
    assert queue(tmp_path, "discard", failed["job_id"]) == {"discarded": 1}
    assert queue(tmp_path, "retry") == {"retried": 0}
    assert queue(tmp_path, "check") == {"violations": []}

    assert queue(tmp_path, "clear", "--dry-run") == {"would_clear": 2}
    assert queue(tmp_path, "clear", "--yes") == {"cleared": 2}
    assert queue(tmp_path, "status")["counts"]["processing"]["total"] == 0
    again = content_ai("process", "-i", library / "good.mp4", "--json", cwd=tmp_path)
    (row,) = json.loads(again.stdout)["videos"]
    assert set(row["stages"].values()) == {"reused"}
    assert queue(tmp_path, "clear", "--manifest", "--yes") == {"cleared": 1}
    assert queue(tmp_path, "check") == {"violations": []}


def test_the_status_block_reads_as_documented(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    lines = content_ai("queue", "status", cwd=tmp_path).stdout.splitlines()
    assert lines[0] == "QUEUE STATUS"
    assert lines[2:6] == [
        "Pending:              2",
        "In Progress:          0",
        "Succeeded:            0",
        "Failed:               0",
    ]
    assert lines[-1] == "Total:                2"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "nothing"], "no job starts with"),
        (["show", "/videos/nothing.mp4"], "there is no job for /videos/nothing.mp4"),
        (["cancel"], "say which jobs: their ids, --type, --error-code"),
        (["resume"], "say which jobs"),
        (["retry", "--since", "soon"], "is not a time"),
        (["clear"], "use --yes"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_orders_change_nothing(library: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    content_ai("process", "-i", library, "--no-process", cwd=tmp_path)
    done = content_ai("queue", *arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert queue(tmp_path, "status")["counts"]["processing"]["pending"] == 2


def test_a_damaged_output_is_found_by_the_check(library: Path, tmp_path: Path) -> None:
    content_ai("process", "-i", library / "good.mp4", cwd=tmp_path)
    output = next((tmp_path / "output").glob("*.mp4"))
    output.write_bytes(output.read_bytes()[:-1] + b"x")
    done = content_ai("queue", "check", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert str(output) in json.loads(done.stdout)["violations"][0]["detail"]


def test_an_edit_with_the_old_time_is_seen_at_once_and_one_without_any_sign_by_scrub(
    library: Path, tmp_path: Path
) -> None:
    file = library / "good.mp4"
    padding = os.urandom(40 * MIB)
    file.write_bytes(file.read_bytes() + (len(padding) + 8).to_bytes(4, "big") + b"free" + padding)
    process = ("process", "-i", file, "--json", "--set", "library.settle_s=0")
    content_ai(*process, cwd=tmp_path)

    def edit() -> None:
        status = file.stat()
        with file.open("r+b") as handle:
            handle.seek(14 * MIB)
            handle.write(os.urandom(3 * MIB))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    edit()
    (row,) = json.loads(content_ai(*process, cwd=tmp_path).stdout)["videos"]
    assert set(row["stages"].values()) == {"computed"}

    edit()  # and now as on a share that tells of no change
    store = Manifest(open_engine(f"sqlite:///{tmp_path}/.content-ai/queue.db")).videos
    from dataclasses import replace

    store.save(replace(store.at(file), signature=str(Signature.of(file.stat()))))
    (row,) = json.loads(content_ai(*process, cwd=tmp_path).stdout)["videos"]
    assert set(row["stages"].values()) == {"reused"}
    assert queue(tmp_path, "scrub", "--all")["changed"] == [str(file)]
    (row,) = json.loads(content_ai(*process, cwd=tmp_path).stdout)["videos"]
    assert set(row["stages"].values()) == {"computed"}


def test_a_stopped_worker_that_goes_on_late_writes_nothing(tmp_path: Path, samples_folder: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    shutil.copy2(long, library / "long.mp4")
    command = ["process", "-i", str(library), "--json", "--set", "queue.lease_s=2", "--set", "queue.heartbeat_s=0.3"]
    slow = ["--set", "render.mode=encode", "--set", "render.preset=veryslow"]
    first = subprocess.Popen(
        [sys.executable, "-m", "content_pipeline.cli", *command, *slow], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    eventually(
        lambda: any("ffmpeg" in one.name() for one in psutil.Process(first.pid).children(recursive=True)), "ffmpeg runs"
    )
    family = [psutil.Process(first.pid), *psutil.Process(first.pid).children(recursive=True)]
    for process in family:
        process.send_signal(signal.SIGSTOP)
    eventually(lambda: queue(tmp_path, "list", "--status", "stale"), "its lease has run out")

    # With a lease of its own that does not run out on a busy machine.
    second = content_ai(*command, "--set", "render.mode=copy", "--set", "queue.lease_s=60", cwd=tmp_path)
    (winner,) = json.loads(second.stdout)["videos"]
    assert winner["status"] == "succeeded"
    output = Path(winner["outputs"][0])
    published = output.read_bytes()

    for process in reversed(family):
        process.send_signal(signal.SIGCONT)
    said, _ = first.communicate(timeout=60)
    (late,) = json.loads(said)["videos"]  # it tells what the winner did, who was asked otherwise
    assert (late["status"], late["montage_s"]) == ("superseded", winner["montage_s"])
    (job,) = queue(tmp_path, "list")
    assert [one["outcome"] for one in queue(tmp_path, "show", job["job_id"])["attempts"]] == ["rescued", "succeeded"]
    assert output.read_bytes() == published
    assert queue(tmp_path, "check") == {"violations": []}
    (job,) = queue(tmp_path, "list")
    assert job["status"] == "succeeded"
    assert job["results"]["facts"]["montage_s"] == winner["montage_s"]
    eventually(lambda: not any(is_alive(process) for process in family[1:]), "its children are gone", within_s=10)
    left = subprocess.run(["pgrep", "-fa", str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert left == ""


def is_alive(process: psutil.Process) -> bool:
    """A child that has ended and waits to be collected by process 1 is not alive."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
