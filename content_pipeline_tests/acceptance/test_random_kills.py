"""Random processes of a running product are killed, again and again; nothing is lost, doubled or left behind."""

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.cli.main import EXIT_USAGE
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.defs.sensors.dispatch_jobs import OPEN
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_manifest
from content_pipeline.manifest.worker_ops import OTHER_OPTIONS
from content_pipeline.settings import Settings, load
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.chaos import by_size
from content_pipeline_tests.helpers.eventually import eventually, let_time_pass
from content_pipeline_tests.helpers.ports import free_port

KILLS = by_size(3, 100)
WAYS: list[tuple[str, ...]] = by_size([("process", "dev")], [("process",), ("dev",), ("process", "dev")])
AT_ONCE = 4  # recordings that wait at a time
SETTINGS = """
[library]
settle_s = 0.2
[schedule]
watch_interval_s = 1
[queue]
heartbeat_s = 1
lease_s = 8
max_crashes = 1000
max_attempts = 1000
"""


class Attacked:
    """A project, the commands that work on it, and a person who has files of their own in its output folder."""

    def __init__(self, folder: Path, recordings: list[Path], seed: int) -> None:
        self.folder, self.library, self.output = folder, folder / "library", folder / "output"
        self.state = folder / "state"
        self.chance = random.Random(seed)
        self._recordings = recordings
        self._made = 0
        self._commands: dict[str, subprocess.Popen[bytes]] = {}
        for made in (self.library, self.output):
            made.mkdir(parents=True)
        (folder / "content-ai.toml").write_text(SETTINGS)
        self.users_files = {self.output / "holiday.mp4": b"a file of the user's", self.output / "notes.json": b"{}"}
        for path, content in self.users_files.items():
            path.write_bytes(content)

    @property
    def settings(self) -> Settings:
        return load(flags={"state_dir": self.state, "output_dir": self.output}, env={}).settings

    @property
    def manifest(self) -> Manifest:
        return open_manifest(self.settings)

    def jobs(self) -> list[Job]:
        return self.manifest.jobs.list() if (self.state / "queue.db").exists() else []

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTENT_AI_", "DAGSTER"))}
        return {**kept, "CONTENT_AI_STATE_DIR": str(self.state), "CONTENT_AI_OUTPUT_DIR": str(self.output)}

    # --- working

    def add_recordings(self) -> None:
        """Other content each time: an unused box at the end of a container is no damage."""
        for _ in range(AT_ONCE):
            source = self._recordings[self._made % len(self._recordings)]
            mark = f"{self._made:08d}".encode()
            target = self.library / f"{source.stem}-{self._made}{source.suffix}"
            part = target.with_name(f"{target.name}.part")
            part.write_bytes(source.read_bytes() + (16).to_bytes(4, "big") + b"free" + mark)
            part.replace(target)
            self._made += 1

    def start(self, way: str) -> None:
        command = self._commands.get(way)
        if command is not None:
            code = command.poll()
            if code is None:
                return
            # Killed, or ended as it should; a command that cannot even start would be killed in vain.
            assert code != EXIT_USAGE, (self.folder / f"{way}.log").read_text()
        arguments = {
            "process": ["process", "--input", str(self.library)],
            "dev": ["dev", "--watch", str(self.library), "--port", str(free_port())],
        }[way]
        with (self.folder / f"{way}.log").open("ab") as log:
            self._commands[way] = subprocess.Popen(
                [sys.executable, "-m", "content_pipeline.cli", *arguments],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "content_pipeline.cli", *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def all_done(self) -> bool:
        done = [job for job in self.jobs() if job.status is State.SUCCEEDED]
        return len(done) == self._made

    def open_runs(self) -> list[str]:
        with open_instance(self.settings) as instance:
            return [run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=OPEN))]

    # --- killing

    def processes(self) -> list[int]:
        mark = f"CONTENT_AI_STATE_DIR={self.state}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    def kill_something(self) -> bool:
        """One process, or now and then all of them; False when there is none."""
        alive = self.processes()
        chosen = alive if alive and self.chance.random() < 0.3 else alive and [self.chance.choice(alive)]
        for pid in chosen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(chosen)

    def end_everything(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for command in self._commands.values():
            command.wait(30)
        eventually(lambda: not self.processes(), "every process is gone")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ways", WAYS, ids="+".join)
def test_random_kills_lose_nothing_and_repeat_nothing(
    ways: tuple[str, ...], tmp_path: Path, samples_folder: Path
) -> None:
    recordings = [
        samples.recording(samples_folder, "kill-me.mp4", seconds=8, bursts=((2, 3), (5, 6))),
        samples.recording(samples_folder, "kill-me-too.mov", seconds=20, gop=150, bursts=((3, 5), (9, 12), (15, 16))),
    ]
    attacked = Attacked(tmp_path, recordings, seed=len(ways))
    try:
        _kill_at_random(attacked, ways)
    finally:
        attacked.end_everything()
    _finish(attacked)
    if "dev" in ways:
        _end_open_runs(attacked)
    _verify(attacked)


def _kill_at_random(attacked: Attacked, ways: tuple[str, ...]) -> None:
    kills = 0
    attacked.add_recordings()
    while kills < KILLS:
        for way in ways:
            attacked.start(way)
        if attacked.all_done():
            attacked.add_recordings()
        # `dev` needs some seconds to start; now and then it is killed before that, mostly after.
        let_time_pass(attacked.chance.uniform(0.2, 12.0 if "dev" in ways else 4.0), unless=attacked.all_done)
        kills += attacked.kill_something()


def _finish(attacked: Attacked) -> None:
    """The plain command, and nothing else, brings everything to its end."""
    finished = attacked.cli("process", "--input", str(attacked.library), "--json")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    again = attacked.cli("process", "--input", str(attacked.library), "--json")
    assert again.returncode == 0, again.stdout + again.stderr
    videos = json.loads(again.stdout)["videos"]
    assert {how for video in videos for how in video["stages"].values()} <= {"reused"}


def _end_open_runs(attacked: Attacked) -> None:
    """Runs that the daemon had queued are the daemon's: back again, it finds that nothing is left to do for them."""
    attacked.start("dev")
    try:
        eventually(lambda: not attacked.open_runs(), "no run is open in Dagster", 180)
    finally:
        attacked.end_everything()


def _verify(attacked: Attacked) -> None:
    assert attacked.all_done(), [(job.subject, job.status, job.last_error) for job in attacked.jobs()]
    for job in attacked.jobs():
        assert _successes(attacked, job) == 1, (job.subject, attacked.manifest.jobs.history(job.job_id))
        assert _hashes(job.output_files) == dict(job.output_hashes)
    checked = attacked.cli("queue", "check", "--json")
    assert json.loads(checked.stdout)["violations"] == []
    assert {path: path.read_bytes() for path in attacked.users_files} == attacked.users_files
    assert [path.name for path in attacked.output.iterdir() if path.name.startswith(".")] == []
    assert list((attacked.state / "artifacts" / ".drafts").glob("*")) == []
    assert attacked.open_runs() == []


def _successes(attacked: Attacked, job: Job) -> int:
    """But for those that `process` asked for again, with its own options, while the daemon's job ran."""
    history = attacked.manifest.jobs.history(job.job_id)
    asked_again = sum(move.reason == OTHER_OPTIONS for move in history)
    return sum(move.to_state is State.SUCCEEDED for move in history) - asked_again


def _hashes(files: list[Any]) -> dict[str, str]:
    return {str(path): hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in files}
