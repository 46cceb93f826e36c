"""A person's files, with the command as a person types it: what is theirs stays, and what was done is said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

# The montage is made anew, quickly.
ANOTHER = ("--set", "render.mode=encode", "--set", "render.preset=ultrafast")
NOTHING = ("--rms-threshold", "10")


class Home:
    """A folder in which a person works: `library` in, `output` out."""

    def __init__(self, folder: Path, samples_folder: Path) -> None:
        self.folder, self.library, self.output = folder, folder / "library", folder / "output"
        self.samples = samples_folder
        self.library.mkdir()

    def add(self, name: str, **how: Any) -> Path:
        made = samples.recording(self.samples, f"yours-{len(how)}.mp4", **{"seconds": 6, "bursts": ((2, 3),), **how})
        (self.library / name).parent.mkdir(exist_ok=True)
        return Path(shutil.copy(made, self.library / name))

    def command(self, *more: object) -> list[str]:
        return ["process", "-i", str(self.library), "--json", "--set", "library.settle_s=0", *map(str, more)]

    def process(self, *more: object) -> dict[str, dict[str, Any]]:
        done = content_ai(*self.command(*more), cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return {str(Path(row["path"]).relative_to(self.library)): row for row in json.loads(done.stdout)["videos"]}

    def start(self, at: str, *more: object) -> subprocess.Popen[str]:
        """A command that stops or is killed at a point."""
        return subprocess.Popen(
            [sys.executable, "-m", "content_pipeline.cli", *self.command(*more)],
            cwd=self.folder,
            env={**os.environ, "CONTENT_AI_KILL_AT": at},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def check(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(content_ai("queue", "check", "--json", cwd=self.folder).stdout)[
            "violations"
        ]
        return found

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.output.iterdir()}


@pytest.fixture
def home(tmp_path: Path, samples_folder: Path) -> Home:
    return Home(tmp_path, samples_folder)


def is_stopped(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:  # helpers come and go
        return False


def go_on(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)


def stopped_child(process: subprocess.Popen[str]) -> psutil.Process:
    def found() -> psutil.Process | None:
        assert process.poll() is None, process.communicate()
        children = psutil.Process(process.pid).children(recursive=True)
        return next((child for child in children if is_stopped(child)), None)

    return eventually(found, "a child has stopped")


def test_a_montage_that_a_person_edited_is_kept_whatever_is_run(home: Home) -> None:
    home.add("game.mp4")
    assert home.process()["game.mp4"]["montage"] == str(home.output / "game.mp4")
    montage = home.output / "game.mp4"
    montage.write_bytes(b"my edit")

    plain = home.process()["game.mp4"]
    assert montage.read_bytes() == b"my edit"
    assert plain["montage"] == str(home.output / "game (2).mp4")
    assert set(plain["stages"].values()) == {"reused"}, "nothing was computed, only put in place"
    assert plain["written"] and plain["notes"][0].startswith(f"kept {montage}: it was changed since")

    assert home.process()["game.mp4"]["written"] == []
    nothing = home.process(*NOTHING)["game.mp4"]
    assert montage.read_bytes() == b"my edit"
    assert [Path(path).name for path in nothing["outputs"]] == ["game (2).plot.png"], "the plot says why"
    assert str(home.output / "game (2).mp4") in nothing["notes"][0] and "no highlights" in nothing["notes"][0]
    assert sorted(home.files()) == ["game (2).plot.png", "game.mp4"]
    assert home.check() == []


def test_names_are_the_recordings_and_copies_are_said_to_be_copies(home: Home) -> None:
    first = home.add("a/game.mp4")
    home.add("b/Game.mp4", bursts=((3, 4),))
    shutil.copy(first, home.library / "b" / "another name.mp4")
    home.add("solo: 1?.mp4", bursts=((1, 2),), seconds=7)
    rows = home.process("--recursive")
    montages = {name: Path(row["montage"]).name for name, row in rows.items()}
    keys = {name: row["key"] for name, row in rows.items()}
    copies = {name: row["copy_of"] for name, row in rows.items()}
    first_of_two = next(name for name in ("a/game.mp4", "b/another name.mp4") if copies[name] is None)
    second_of_two = ({"a/game.mp4", "b/another name.mp4"} - {first_of_two}).pop()
    expected = {"a/game.mp4": f"{keys['a/game.mp4']}.mp4", "b/another name.mp4": "another name.mp4"}[first_of_two]
    assert montages == {
        first_of_two: expected,
        second_of_two: expected,
        "b/Game.mp4": f"{keys['b/Game.mp4']}.mp4",
        "solo: 1?.mp4": "solo- 1-.mp4",
    }
    assert copies == {
        first_of_two: None,
        second_of_two: str(home.library / first_of_two),
        "b/Game.mp4": None,
        "solo: 1?.mp4": None,
    }
    told = content_ai("process", "-i", home.library, "--recursive", cwd=home.folder, env={"COLUMNS": "300"}).stdout
    assert f"{expected} (shared with {home.library / first_of_two}: the same recording)" in told
    assert f"{keys['b/Game.mp4']}.mp4" in told


def test_montages_from_another_state_folder_are_no_recordings(home: Home) -> None:
    home.add("game.mp4")
    inside = ("-o", home.library / "montages", "--recursive")
    assert list(home.process(*inside)) == ["game.mp4"]
    assert list(home.process(*inside)) == ["game.mp4"]
    other = ("--set", f"state_dir={home.folder / 'other'}", *inside, "--no-process")
    assert list(home.process(*other)) == ["game.mp4"]


@pytest.mark.parametrize("before", ["published", "kept"])
def test_a_recording_that_takes_the_name_of_a_montage_is_named_and_then_taken(home: Home, before: str) -> None:
    home.add("game.mkv")
    inside = ("-o", home.library)
    assert list(home.process(*inside)) == ["game.mkv"]
    montage = home.library / "game.mp4"
    assert list(home.process(*inside)) == ["game.mkv"], "a montage is no recording"
    os.utime(montage)
    assert list(home.process(*inside)) == ["game.mkv"], "nor is one that was touched"
    home.add("game.mp4", bursts=((3, 4),))
    if before == "kept":
        home.process(*inside, *ANOTHER)
    done = content_ai("process", "-i", home.library, *inside, cwd=home.folder)
    assert f"Passed over: {montage}: a montage was published under this name" in done.stderr
    assert f"content-ai process -i {montage}" in done.stderr
    said = content_ai("plan", "-i", home.library, *inside, "--json", cwd=home.folder)
    assert json.loads(said.stdout)["changed_outputs"] == [str(montage)]
    mine = montage.read_bytes()
    assert content_ai("process", "-i", montage, *inside, cwd=home.folder).returncode == 0
    assert sorted(home.process(*inside)) == ["game.mkv", "game.mp4"]
    assert montage.read_bytes() == mine


@pytest.mark.parametrize(
    ("point", "file", "settings"), [("exchanged", "game.mp4", ANOTHER), ("taken_out", "game.json", NOTHING)]
)
def test_a_save_in_the_moment_before_a_kill_is_not_lost(
    home: Home, point: str, file: str, settings: tuple[str, ...]
) -> None:
    home.add("game.mp4")
    home.process()
    command = home.start(f"stop:announced,{point}", *settings)
    child = stopped_child(command)
    (home.folder / "draft").write_bytes(b"my edit")
    (home.folder / "draft").replace(home.output / file)
    child.send_signal(signal.SIGCONT)
    command.communicate(timeout=120)
    assert command.returncode == -9
    hidden = [name for name in home.files() if name.startswith(".")]
    assert hidden, "killed in the middle"

    home.process()
    assert home.files()[file] == b"my edit"
    assert not [name for name in home.files() if name.startswith(".")]
    assert home.check() == []


def test_a_worker_that_wakes_up_late_publishes_nothing(home: Home) -> None:
    home.add("game.mp4")
    home.process()
    short = ("--set", "queue.lease_s=8", "--set", "queue.heartbeat_s=1")
    late = home.start("stop:announced", *ANOTHER, *short)
    child = stopped_child(late)
    late.send_signal(signal.SIGSTOP)
    manifest = open_manifest(load(flags={"state_dir": home.folder / ".content-ai"}, env={}).settings)
    eventually(manifest.jobs.overdue_workers, "its lease has run out")

    done = home.process(*ANOTHER, *short)["game.mp4"]
    assert done["status"] == "succeeded"
    before = {path.name: (path.stat().st_ino, path.read_bytes()) for path in home.output.iterdir()}
    assert not [name for name in before if name.startswith(".")], "what the late one had staged is gone"

    late.send_signal(signal.SIGCONT)
    child.send_signal(signal.SIGCONT)
    late.communicate(timeout=120)
    assert {path.name: (path.stat().st_ino, path.read_bytes()) for path in home.output.iterdir()} == before
    assert home.check() == []


def test_a_folder_that_does_not_answer_keeps_nobody_else_waiting(home: Home) -> None:
    home.add("game.mp4")
    home.process()
    hung = home.start("stop:exchanged", *ANOTHER)
    child = stopped_child(hung)
    try:
        other = home.folder / "other"
        shutil.copytree(home.library, other)
        with (other / "game.mp4").open("ab") as file:
            file.write(b"\0\0\0\x08free")
        command = ("process", "-i", other, "-o", home.folder / "elsewhere", "--set", "library.settle_s=0")
        done = content_ai(*command, cwd=home.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (home.folder / "elsewhere" / "game.mp4").exists()
        assert hung.poll() is None and child.status() == psutil.STATUS_STOPPED
    finally:
        eventually(lambda: go_on(child) or hung.poll() is not None, "it has ended")  # it stops at each of its files
        hung.communicate(timeout=120)
    assert hung.returncode == 0
    assert home.check() == []
    assert not [name for name in home.files() if name.startswith(".")]
