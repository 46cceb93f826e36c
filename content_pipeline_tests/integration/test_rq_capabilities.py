"""Videos that require a capability go to the worker that has it, and are named while nobody has."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.execution.job_kinds import PROCESSING
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.rq_hosts import RqProject, rq_project
from content_pipeline_tests.helpers.valkey import valkey_server

SUCCESS = dg.DagsterRunStatus.SUCCESS
SAID = "2 jobs require nvenc, and no worker has it: start one with `--capabilities nvenc`"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RqProject]:
    with (
        valkey_server() as valkey,
        rq_project(tmp_path / "project", monkeypatch, postgres.server(), valkey) as project,
    ):
        yield project


def add(project: RqProject, samples_folder: Path, requires: str, *numbers: int) -> None:
    for number in numbers:
        made = samples.recording(samples_folder, f"short-{number}.mp4", seconds=6 + number, bursts=((2, 3),))
        shutil.copy(made, project.library / f"{requires}{number}.mp4")
    project.set(QUEUE__REQUIRES=requires)
    project.enqueue()


def content_ai(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "content_pipeline.cli", *words], capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout + done.stderr


def test_what_requires_a_capability_waits_for_a_worker_that_has_it_and_keeps_nobody_else_waiting(
    project: RqProject, samples_folder: Path
) -> None:
    add(project, samples_folder, "nvenc", 0, 1)
    add(project, samples_folder, "none", 2)
    plain = project.start_worker()
    runs = project.launch_due()
    assert set(runs) == {"none2.mp4"}, "of the others no run is opened that nobody could execute"
    assert project.ends(runs["none2.mp4"]) is SUCCESS
    for command in ("status", "list"):
        shown = content_ai("queue" if command == "status" else "worker", command)
        assert f"Waiting: {SAID}" in shown, shown
    assert SAID in content_ai("doctor")

    wanted = project.job("nvenc0.mp4")
    by_hand = project.launch_by_hand(PROCESSING.partition_key(wanted, project.manifest))
    eventually(lambda: "content-ai:processing:nvenc:normal" in str(project.valkey.client.keys()), "it was passed on")
    assert any("requires nvenc" in said for said in project.messages(by_hand))
    assert project.job("nvenc0.mp4").claim_count == 0 and plain.poll() is None

    able = project.start_worker("--capabilities", "nvenc")
    assert project.ends(by_hand) is SUCCESS
    (due,) = eventually(project.launch_due, "the dispatcher sees who can do it").values()
    assert project.ends(due) is SUCCESS
    assert any("Announced to the workers that have nvenc." in said for said in project.messages(due))
    listed = json.loads(content_ai("worker", "list", "--json"))
    assert {one["pid"]: one["capabilities"] for one in listed["workers"]} == {plain.pid: [], able.pid: ["nvenc"]}
    assert listed["unmet"] == {}
    attempts = [one for name in ("nvenc0", "nvenc1") for one in project.attempts(f"{name}.mp4")]
    assert [f":{able.pid}:" in one.worker_id for one in attempts] == [True, True]
    assert project.manifest.check() == [] and project.open_runs() == []


def test_a_command_that_could_not_claim_what_it_enqueues_says_so(project: RqProject, samples_folder: Path) -> None:
    add(project, samples_folder, "nvenc", 0)
    refused = content_ai("process", "-i", str(project.library))
    assert "`queue.requires` = 'nvenc'" in refused and "--no-process" in refused
    content_ai("queue", "process")
    assert project.job("nvenc0.mp4").claim_count == 0, "it ends, and leaves it to others"
    done = content_ai("process", "-i", str(project.library), "--set", "queue.requires=none")
    assert project.successes() == {"nvenc0.mp4": 1}, done
