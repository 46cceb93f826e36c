"""The project as any other Dagster project: Dagster's own commands in its root, whatever `DAGSTER_HOME` says."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.launchers.local.run_launcher import drain_supervisor
from content_pipeline.launchers.local.supervisor_lock import SupervisorLock
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.ports import free_port
from content_pipeline_tests.helpers.processing import Project

ROOT = Path(__file__).parents[2]
OURS = ("content_pipeline", "dagster.yaml", "workspace.yaml", "pyproject.toml", ".gitignore")
RECORDINGS = {"one.mp4": 6.0, "two.mp4": 7.0, "three.mp4": 8.0}
SETTINGS = """
[library]
folders = ["{library}"]
settle_s = 0
[schedule]
watch_interval_s = 1
"""
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]

Made = dict[str, tuple[dict[str, str], list[str]]]  # by file name: stage keys, and the hashes of the outputs


class Checkout:
    """A copy of the project's root, under git, with three recordings in a library that its settings name."""

    def __init__(self, folder: Path, samples_folder: Path, dagster_home: Path | None) -> None:
        self.root, self.library, self.home = folder / "project", folder / "library", dagster_home
        self.root.mkdir(parents=True)
        self.library.mkdir()
        for name, seconds in RECORDINGS.items():
            shutil.copy(samples.recording(samples_folder, "a.mp4", seconds=seconds), self.library / name)
        for name in OURS:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, self.root / name)
        (self.root / "content-ai.toml").write_text(SETTINGS.format(library=self.library))
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "as it is"]):
            subprocess.run([*GIT, *arguments], cwd=self.root, check=True)
        self.port = free_port()
        self.log = folder / "dagster.log"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTENT_AI_", "DAGSTER"))}
        home = {} if self.home is None else {"DAGSTER_HOME": str(self.home)}
        return {**kept, **home, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}

    @property
    def manifest(self) -> Manifest:
        return open_manifest(load(flags={"state_dir": self.root / ".content-ai"}, env={}).settings)

    @property
    def lasting_home(self) -> Path:
        return self.root / ".content-ai" / "dagster" if self.home is None else self.home

    def jobs(self) -> Mapping[str, Job]:
        return {Path(job.subject).name: job for job in self.manifest.jobs.list()}

    def made(self) -> Made:
        return {name: made(job) for name, job in self.jobs().items()}

    def dagster(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "dagster", *arguments],
            env=self.environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def dev(self) -> Iterator[None]:
        """`dagster dev`, ended as Ctrl-C ends it; a supervisor that outlives it ends too."""
        command = [sys.executable, "-m", "dagster", "dev", "--port", str(self.port)]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, env=self.environment, cwd=self.root, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield
            process.send_signal(signal.SIGINT)
            process.wait(90)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            drain_supervisor(self.lasting_home)
            eventually(lambda: SupervisorLock(self.lasting_home).holder() is None, "no supervisor is left")

    def graphql(self, query: str) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            json.dumps({"query": query}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)["data"]
        return found

    def runs(self) -> list[str]:
        found = self.graphql("{ runsOrError { ... on Runs { results { status } } } }")
        return [run["status"] for run in found["runsOrError"]["results"]]

    def untracked(self) -> str:
        command = [*GIT, "status", "--porcelain", "--untracked-files=all"]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout


def made(job: Job) -> tuple[dict[str, str], list[str]]:
    assert job.status is State.SUCCEEDED, job
    return job.stage_keys, sorted(job.output_hashes.values())


@pytest.fixture(scope="module")
def as_a_worker_makes_them(samples_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """By `content-ai process`, elsewhere."""
    project = Project(tmp_path_factory.mktemp("worker"))
    for name, seconds in RECORDINGS.items():
        shutil.copy(samples.recording(samples_folder, "a.mp4", seconds=seconds), project.library / name)
    project.process()
    return {Path(job.subject).name: made(job) for job in project.manifest().jobs.list()}


@pytest.mark.parametrize("home", ["unset", "empty", "ours"])
def test_dagster_dev_makes_what_content_ai_makes_and_leaves_nothing_in_the_repository(
    home: str, tmp_path: Path, samples_folder: Path, as_a_worker_makes_them: Made
) -> None:
    """Unset and ours: under our launcher. Empty: under stock Dagster's launcher and storage."""
    dagster_home = None if home == "unset" else tmp_path / "home"
    checkout = Checkout(tmp_path / "copy", samples_folder, dagster_home)
    if dagster_home is not None:
        dagster_home.mkdir()
    if home == "ours":
        shutil.copy(checkout.root / "dagster.yaml", tmp_path / "home")
    with checkout.dev():
        eventually(
            lambda: len(jobs := checkout.jobs()) == 3 and all(one.status is State.SUCCEEDED for one in jobs.values()),
            f"three recordings are done; see {checkout.log}",
            180,
        )
        eventually(lambda: checkout.runs() == ["SUCCESS"] * 3, "a run each, and no more", 30)
        found = checkout.graphql(
            "{ repositoriesOrError { ... on RepositoryConnection { nodes { location { name } } } } }"
        )
        assert [one["location"]["name"] for one in found["repositoriesOrError"]["nodes"]] == ["content_pipeline"]
    assert checkout.made() == as_a_worker_makes_them
    stock = [job.job_id for job in checkout.jobs().values() if _attempted_by(checkout, job).startswith("run:")]
    assert len(stock) == (3 if home == "empty" else 0), "who executed them"
    assert checkout.untracked() == ""
    assert (checkout.lasting_home / "history" / "runs.db").exists(), "the records outlive the command"
    assert not list(checkout.root.glob(".tmp_dagster_home_*"))


def _attempted_by(checkout: Checkout, job: Job) -> str:
    (attempt,) = checkout.manifest.jobs.attempts(job.job_id)
    return attempt.worker_id


def test_dagsters_other_commands_work_without_a_home(
    tmp_path: Path, samples_folder: Path, as_a_worker_makes_them: Made
) -> None:
    checkout = Checkout(tmp_path / "copy", samples_folder, None)
    assert "Validation successful for code location content_pipeline" in checkout.dagster("definitions", "validate")
    assert "Job: process_video" in checkout.dagster("job", "list")
    key = _registered_key(checkout, "one.mp4")
    chosen = "--select", "fingerprint,energy,detections,montage"
    checkout.dagster("asset", "materialize", "-m", "content_pipeline.definitions", *chosen, "--partition", key)
    assert checkout.made() == {"one.mp4": as_a_worker_makes_them["one.mp4"]}
    assert checkout.untracked() == ""


def _registered_key(checkout: Checkout, name: str) -> str:
    """Make a recording a partition, as the dispatching sensor does; in the records that the next command uses."""
    register = f"""
from pathlib import Path
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.library.identify import likely_key
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load
settings, library = load().settings, Path({str(checkout.library)!r})
key = likely_key(library / {name!r}, library, open_manifest(settings).videos)
open_instance(settings).add_dynamic_partitions("videos", [key])
print(key)
"""
    command = [sys.executable, "-c", register]
    said = subprocess.run(
        command, env=checkout.environment, cwd=checkout.root, capture_output=True, text=True, check=True
    )
    return said.stdout.strip()
