"""Runs that no worker of ours executes: notebooks, `dagster job execute`, other executors. The same results, once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.names import JOB_TAG
from content_pipeline.dagster_runtime.private_api import InstanceRef
from content_pipeline.definitions import build_definitions
from content_pipeline.defs.partitions import VIDEOS
from content_pipeline.defs.sensors.dispatch_jobs import due_runs
from content_pipeline.errors import RetryPolicy
from content_pipeline.execution.names import PROCESS_VIDEO
from content_pipeline.execution.worker_identity import worker_of_run
from content_pipeline.launchers.reconcile import reconcile
from content_pipeline.library.identify import likely_key
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure, JobRequest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import Settings, load
from content_pipeline.stage import VIDEO_STAGES
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.processing import Project

FAST = {"QUEUE__HEARTBEAT_S": "0.3", "QUEUE__LEASE_S": "4", "LIBRARY__SETTLE_S": "0"}
MULTIPROCESS = """
import dagster as dg
from content_pipeline.definitions import build_definitions
from content_pipeline.settings import load

@dg.definitions
def defs():
    ours = build_definitions(load().settings)
    return dg.Definitions(ours.assets, jobs=ours.jobs, resources=ours.resources, executor=dg.multiprocess_executor)
"""


Made = tuple[dict[str, str], list[str]]  # stage keys, and the hashes of the outputs


class StockProject:
    """A library, and a Dagster home without a `dagster.yaml`: everything in it is stock Dagster's."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.library, self.home = folder / "library", folder / "home"
        for made in (self.library, self.home):
            made.mkdir(parents=True)
        values = {
            **FAST,
            "STATE_DIR": str(folder / "state"),
            "OUTPUT_DIR": str(folder / "output"),
            "LIBRARY__FOLDERS": json.dumps([str(self.library)]),
        }
        for name, value in values.items():
            monkeypatch.setenv(f"CONTENT_AI_{name}", value)
        monkeypatch.setenv("DAGSTER_HOME", str(self.home))
        monkeypatch.chdir(folder)

    @property
    def settings(self) -> Settings:
        return load().settings

    @property
    def manifest(self) -> Manifest:
        return open_manifest(self.settings)

    def instance(self) -> dg.DagsterInstance:
        return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(self.home)))

    def new_video(self, source: Path, name: str = "game.mp4") -> str:
        """Copy a recording into the library, and make its key a partition, as a person finds it in the UI."""
        shutil.copy(source, self.library / name)
        key = likely_key(self.library / name, self.library, self.manifest.videos)
        with self.instance() as instance:
            instance.add_dynamic_partitions("videos", [key])
        return key

    def materialize(self, key: str, *assets: str, **more: Any) -> dg.ExecuteInProcessResult:
        """What a person does in a notebook."""
        wanted = set(assets) or set(VIDEO_STAGES)
        definitions = build_definitions(self.settings)
        chosen = [one for one in definitions.assets or () if isinstance(one, dg.AssetsDefinition)]
        with self.instance() as instance:
            return dg.materialize(
                [one for one in chosen if one.key.to_user_string() in wanted],
                partition_key=key,
                resources=dict(definitions.resources or {}),
                instance=instance,
                raise_on_error=False,
                **more,
            )

    def materialize_until_interrupted(self, key: str) -> None:
        """As if Ctrl-C came between two steps."""

        @dg.asset(deps=["fingerprint"], partitions_def=VIDEOS)
        def before_energy() -> None:
            raise dg.DagsterExecutionInterruptedError

        definitions = build_definitions(self.settings)
        chosen = [one for one in definitions.assets or () if isinstance(one, dg.AssetsDefinition)]
        of_video = [one for one in chosen if one.key.to_user_string() in VIDEO_STAGES]
        with self.instance() as instance, pytest.raises(dg.DagsterExecutionInterruptedError):
            resources = dict(definitions.resources or {})
            dg.materialize([*of_video, before_energy], partition_key=key, resources=resources, instance=instance)

    def execute(self, key: str, *target: str, **environment: str) -> subprocess.Popen[bytes]:
        """`dagster job execute`, as a process of its own."""
        command = [
            sys.executable,
            "-m",
            "dagster",
            "job",
            "execute",
            *(target or ("-m", "content_pipeline.definitions")),
        ]
        tags = json.dumps({"dagster/partition": key})
        with (self.folder / "execute.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "-j", PROCESS_VIDEO, "--tags", tags],
                env={**os.environ, **{f"CONTENT_AI_{name}": value for name, value in environment.items()}},
                stdout=log,
                stderr=log,
            )

    def job(self) -> Job:
        (job,) = self.manifest.jobs.list()
        return job

    def outcomes(self) -> list[str | None]:
        return [attempt.outcome for attempt in self.manifest.jobs.attempts(self.job().job_id)]

    def runs(self) -> list[dg.DagsterRun]:
        with self.instance() as instance:
            return list(instance.get_runs())

    def failure(self, run_id: str) -> str:
        """What the step that failed says."""
        with self.instance() as instance:
            events = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
        (said,) = [event.dagster_event.step_failure_data.user_failure_data for event in events if event.dagster_event]
        return said.description


@pytest.fixture
def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StockProject:
    return StockProject(tmp_path / "stock", monkeypatch)


@pytest.fixture
def game(samples_folder: Path) -> Path:
    return samples.recording(samples_folder, "game.mp4")


@pytest.fixture(scope="module")
def as_a_worker_makes_it(samples_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """By `content-ai process`, elsewhere."""
    project = Project(tmp_path_factory.mktemp("worker"))
    shutil.copy(samples.recording(samples_folder, "game.mp4"), project.library / "game.mp4")
    project.process()
    (job,) = project.manifest().jobs.list()
    return made(job)


def made(job: Job) -> Made:
    assert job.status is State.SUCCEEDED, job
    return job.stage_keys, sorted(job.output_hashes.values())


def test_a_new_video_is_materialized_in_a_notebook_and_committed_like_any_other(
    stock: StockProject, game: Path, as_a_worker_makes_it: Made
) -> None:
    result = stock.materialize(stock.new_video(game))
    assert result.success
    job = stock.job()
    assert made(job) == as_a_worker_makes_it
    assert (job.run_id, job.attempt_count, stock.outcomes()) == (result.run_id, 1, ["succeeded"])
    assert job.results["facts"]["highlights"] and set(job.cost) == set(VIDEO_STAGES)


def test_dagster_job_execute_commits_too(stock: StockProject, game: Path, as_a_worker_makes_it: Made) -> None:
    assert stock.execute(stock.new_video(game)).wait(120) == 0
    assert made(stock.job()) == as_a_worker_makes_it
    assert [run.status for run in stock.runs()] == [dg.DagsterRunStatus.SUCCESS]


def test_under_a_multiprocess_executor_all_steps_share_one_attempt_and_the_last_commits(
    stock: StockProject, game: Path, as_a_worker_makes_it: Made
) -> None:
    (stock.folder / "multiprocess.py").write_text(MULTIPROCESS)
    # Nobody renews while the process of the next step starts, which on a busy machine takes a while.
    assert stock.execute(stock.new_video(game), "-f", "multiprocess.py", QUEUE__LEASE_S="90").wait(240) == 0
    job = stock.job()
    assert made(job) == as_a_worker_makes_it
    assert stock.outcomes() == ["succeeded"]
    assert job.results["facts"]["highlights"], "what a step of another process found is known"


def test_a_run_of_some_assets_leaves_the_rest_to_be_done(stock: StockProject, game: Path) -> None:
    assert stock.materialize(stock.new_video(game), "fingerprint", "energy").success
    job = stock.job()
    assert (job.status, job.attempt_count, stock.outcomes()) == (State.PENDING, 0, ["released"])


def test_a_killed_run_is_brought_back_by_its_lease_and_done_once(stock: StockProject, game: Path) -> None:
    key = stock.new_video(game)
    assert stock.execute(key, KILL_AT="energy_sealed").wait(120) == -signal.SIGKILL
    (dead,) = stock.runs()
    job = stock.job()
    assert (job.status, job.worker_id, job.run_id) == (State.RUNNING, worker_of_run(dead.run_id), dead.run_id)

    def reconciled() -> bool:
        with stock.instance() as instance:
            reconcile(stock.settings, instance)
        return stock.job().status is State.PENDING

    eventually(reconciled, "the lease ran out")
    (dead,) = stock.runs()
    assert dead.status is dg.DagsterRunStatus.FAILURE, "nobody goes on with it: the job gets another run"
    with stock.instance() as instance:
        (due,) = due_runs(stock.settings, instance, datetime.now(UTC))
    result = stock.materialize(key, tags={JOB_TAG: due.tag})
    assert result.success
    assert stock.outcomes() == ["rescued", "succeeded"]
    reused = {stage: spent["reused"] for stage, spent in stock.job().cost.items()}
    assert reused == {"fingerprint": True, "energy": True, "detections": False, "montage": False}


def test_of_two_runs_of_one_job_one_works_and_the_other_is_refused_clearly(stock: StockProject, game: Path) -> None:
    key = stock.new_video(game)
    first = stock.execute(key, KILL_AT="hang:energy_sealed")
    try:
        eventually(lambda: stock.manifest.jobs.list() and stock.job().video_key, "the first has claimed it")
        before = stock.job()
        result = stock.materialize(key)
        assert not result.success
        assert f"{key} is already being processed by run {before.run_id}" in stock.failure(result.run_id)
        assert f"content-ai queue cancel {before.job_id}" in stock.failure(result.run_id)
        eventually(lambda: stock.job().last_heartbeat > before.last_heartbeat, "the first goes on")
        assert stock.job().lease == before.lease
    finally:
        first.kill()
        first.wait()


def test_an_unknown_partition_is_refused_once_and_never_asked_for_again(stock: StockProject, game: Path) -> None:
    with stock.instance() as instance:
        instance.add_dynamic_partitions("videos", ["nobody-0123456789"])
    result = stock.materialize("nobody-0123456789")
    assert not result.success
    assert "no file is known for the video nobody-0123456789" in stock.failure(result.run_id)
    assert "content-ai process" in stock.failure(result.run_id)
    assert not stock.manifest.jobs.list()
    with stock.instance() as instance:
        assert not due_runs(stock.settings, instance, datetime.now(UTC))


def test_a_run_whose_job_waits_for_its_retry_is_refused_and_touches_nothing(stock: StockProject, game: Path) -> None:
    key = stock.new_video(game)
    stock.manifest.jobs.enqueue([JobRequest(str(stock.library / "game.mp4"), str(stock.library))])
    (job,) = stock.manifest.jobs.claim(ClaimRequest("somebody"))
    stock.manifest.jobs.fail(job.lease, JobFailure("disk_full", "no room", RetryPolicy.ENVIRONMENTAL))
    before = stock.job()
    result = stock.materialize(key, tags={JOB_TAG: f"{job.job_id}:2"})
    assert not result.success
    assert "work is paused, or the job is not due yet" in stock.failure(result.run_id)
    assert stock.job() == before


def test_what_cannot_be_done_fails_its_job_with_the_words_of_the_run(stock: StockProject) -> None:
    (stock.folder / "noise.mp4").write_bytes(os.urandom(4096))
    result = stock.materialize(stock.new_video(stock.folder / "noise.mp4"))
    assert not result.success
    job = stock.job()
    assert (job.status, job.error_code, stock.outcomes()) == (State.FAILED, "not_a_video", ["failed"])
    assert job.last_error in stock.failure(result.run_id)


def test_a_job_that_a_person_cancels_stops_its_run_wherever_it_is(stock: StockProject, samples_folder: Path) -> None:
    long = samples.recording(samples_folder, "long.mp4", seconds=900, size=(64, 36), fps=5)
    run = stock.execute(stock.new_video(long))
    eventually(lambda: stock.manifest.jobs.list() and stock.job().video_key, "it is worked on")
    stock.manifest.jobs.cancel(JobFilter(job_ids=[stock.job().job_id]))
    run.wait(60)
    assert stock.job().status is State.CANCELLED
    assert stock.outcomes() == ["cancelled"]
    assert [one.status for one in stock.runs()] == [dg.DagsterRunStatus.CANCELED]


def test_an_interrupted_run_gives_its_job_back_at_no_cost(stock: StockProject, samples_folder: Path) -> None:
    long = samples.recording(samples_folder, "long.mp4", seconds=900, size=(64, 36), fps=5)
    run = stock.execute(stock.new_video(long))
    eventually(lambda: stock.manifest.jobs.list() and stock.job().progress, "it is worked on")
    run.send_signal(signal.SIGINT)
    run.wait(60)
    job = stock.job()
    assert (job.status, job.attempt_count, stock.outcomes()) == (State.PENDING, 0, ["released"])


def test_a_run_that_is_interrupted_between_two_steps_gives_its_job_back_too(stock: StockProject, game: Path) -> None:
    stock.materialize_until_interrupted(stock.new_video(game))
    with stock.instance() as instance:
        (run,) = instance.get_runs()
        events = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
    assert [event.step_key for event in events] == ["fingerprint"]
    job = stock.job()
    assert (job.status, job.attempt_count, stock.outcomes()) == (State.PENDING, 0, ["released"])
