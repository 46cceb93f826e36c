"""`content-ai worker list`: who works on a manifest, with real workers that are killed and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.version import __version__
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.conformance.manifests import database_url
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

SOON = {"CONTENT_AI_QUEUE__HEARTBEAT_S": "0.2", "CONTENT_AI_LIBRARY__SETTLE_S": "0"}
SLOW = {"CONTENT_AI_RENDER__MODE": "encode", "CONTENT_AI_RENDER__PRESET": "veryslow", "CONTENT_AI_WORKERS": "1"}


@pytest.fixture(params=["sqlite", "postgres"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        url = stack.enter_context(database_url(request.param, tmp_path))
        yield {**SOON, "CONTENT_AI_DB": url}


def listed(cwd: Path, environment: dict[str, str]) -> list[dict[str, Any]]:
    done = content_ai("worker", "list", "--json", cwd=cwd, env=environment)
    assert done.returncode in (0, 2), done.stderr  # 2: there is no manifest yet
    workers: list[dict[str, Any]] = json.loads(done.stdout)["workers"] if done.returncode == 0 else []
    return workers


@contextmanager
def started(cwd: Path, environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "content_pipeline.cli", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def states(cwd: Path, environment: dict[str, str]) -> dict[int, str]:
    return {worker["pid"]: worker["state"] for worker in listed(cwd, environment)}


def test_an_idle_worker_is_listed_a_killed_one_is_stale_and_the_next_one_takes_its_place(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with started(tmp_path, environment, "worker") as first:
        eventually(lambda: states(tmp_path, environment) == {first.pid: "idle"}, "the first worker waits", 60)
        (worker,) = listed(tmp_path, environment)
        assert (worker["version"], worker["role"], worker["jobs"]) == (__version__, "worker", [])
        first.kill()
        first.wait()
        assert states(tmp_path, environment) == {first.pid: "stale"}
        said = content_ai("worker", "list", cwd=tmp_path, env=environment).stdout
        assert said.startswith("stale") and f"pid {first.pid}" in said
    with started(tmp_path, environment, "worker") as second:
        eventually(lambda: states(tmp_path, environment) == {second.pid: "idle"}, "the second is alone", 60)
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0
    assert content_ai("worker", "list", cwd=tmp_path, env=environment).stdout == "No worker is running.\n"


def test_what_a_command_works_on_is_listed_with_its_stage_and_lease(
    tmp_path: Path, environment: dict[str, str], samples_folder: Path
) -> None:
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    with started(tmp_path, {**environment, **SLOW}, "process", "-i", str(long)) as command:

        def is_rendering() -> bool:
            return any(job["stage"] == "montage" for one in listed(tmp_path, environment) for job in one["jobs"])

        eventually(is_rendering, "the montage is made", 120)
        (worker,) = listed(tmp_path, environment)
        (job,) = worker["jobs"]
        assert (worker["pid"], worker["state"], worker["role"]) == (command.pid, "busy", "command")
        assert job["subject"].endswith("long.mp4") and 0 <= job["percent"] <= 100 and job["lease_left_s"] > 0
        said = content_ai("worker", "list", cwd=tmp_path, env=environment).stdout
        assert job["job_id"] in said and "montage" in said and "lease for" in said


def test_options_before_the_command_are_refused_and_not_ignored(tmp_path: Path) -> None:
    done = content_ai("worker", "--state-dir", "x", "list", cwd=tmp_path)
    assert done.returncode == 2 and "write options after the command" in done.stderr
