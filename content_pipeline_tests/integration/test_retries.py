"""Retries inside a run: by class of error, beside a terminate, and across the death of the worker. Real processes."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.manifest.lifecycle import State
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually, let_time_pass
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project

SUCCESS, FAILURE, CANCELED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)
STARTED, RETRY, RESTARTED = (
    dg.DagsterEventType.STEP_START,
    dg.DagsterEventType.STEP_UP_FOR_RETRY,
    dg.DagsterEventType.STEP_RESTARTED,
)
LONG_S = 3600  # a back-off that no test waits for: varied at random, it is still long


@pytest.fixture
def game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples_folder: Path) -> Iterator[LaunchedProject]:
    """One recording, enqueued; retries follow at once."""
    with launched_project(tmp_path, monkeypatch) as project:
        short = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
        shutil.copy(short, project.library / "game.mp4")
        project.enqueue()
        back_off(project, 0.05)
        yield project


def back_off(project: LaunchedProject, seconds: float) -> None:
    """In the settings file, which counts again for a worker that goes on with a run."""
    (project.library.parent / "content-ai.toml").write_text(f"[queue]\nstep_retry_delay_s = {seconds}\n")


def count(project: LaunchedProject, run_id: str, kind: dg.DagsterEventType, step: str = "energy") -> int:
    with project.instance() as instance:
        return [log.step_key for log in instance.all_logs(run_id, of_type=kind)].count(step)


def tries(project: LaunchedProject, run_id: str, step: str = "energy") -> int:
    return count(project, run_id, STARTED, step) + count(project, run_id, RESTARTED, step)


def terminate(project: LaunchedProject, run_id: str) -> None:
    with project.instance() as instance:
        assert instance.run_launcher.terminate(run_id)


def outcomes(project: LaunchedProject) -> list[tuple[str | None, str | None]]:
    job = project.job("game.mp4")
    return [(one.outcome, one.error_code) for one in project.manifest.jobs.attempts(job.job_id)]


def test_a_permanent_error_is_tried_once(game: LaunchedProject) -> None:
    game.set(KILL_AT="corrupt_media:energy_entered")
    (run,) = game.launch_due().values()
    assert game.ends(run) is FAILURE
    assert (tries(game, run), count(game, run, RETRY)) == (1, 0)
    assert game.job("game.mp4").status is State.FAILED
    assert outcomes(game) == [("failed", "corrupt_media")]


def test_a_transient_error_is_tried_three_times_in_a_run_that_costs_one_attempt(game: LaunchedProject) -> None:
    game.set(KILL_AT="file_in_use:energy_entered")
    (run,) = game.launch_due().values()
    assert game.ends(run) is FAILURE
    assert (tries(game, run), count(game, run, RETRY)) == (3, 2)
    assert tries(game, run, "fingerprint") == 1
    job = game.job("game.mp4")
    assert (job.status, job.attempt_count, job.error_code) == (State.PENDING, 1, "file_in_use")
    assert outcomes(game) == [("failed", "file_in_use")]
    assert game.launch_due() == {}, "the next run waits for the back-off of the manifest"


def test_a_transient_error_that_passes_is_not_seen_outside_of_its_run(game: LaunchedProject) -> None:
    game.set(KILL_AT="file_in_use*1:energy_entered")
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    assert (tries(game, run), count(game, run, RETRY)) == (2, 1)
    job = game.job("game.mp4")
    assert (job.status, job.error_code, job.run_id) == (State.SUCCEEDED, None, run)
    assert outcomes(game) == [("succeeded", None)]


def test_an_error_of_the_environment_is_tried_once_and_opens_a_breaker(game: LaunchedProject) -> None:
    game.set(KILL_AT="disk_full:energy_entered")
    (run,) = game.launch_due().values()
    assert game.ends(run) is FAILURE
    assert (tries(game, run), count(game, run, RETRY)) == (1, 0)
    job = game.job("game.mp4")
    assert (job.status, job.attempt_count, job.error_code) == (State.PENDING, 0, "disk_full")
    assert len(game.manifest.breakers.all()) == 1


@pytest.mark.parametrize("where", ["energy_entered", "energy_left"])
def test_a_run_that_is_terminated_at_work_is_not_retried(game: LaunchedProject, where: str) -> None:
    """Inside of the boundary that names errors, and in an asset's code after it."""
    game.set(KILL_AT=f"hang:{where}")
    (run,) = game.launch_due().values()
    reached = "energy_entered" if where == "energy_entered" else "energy_sealed"
    eventually(lambda: hangs(game, run, reached), "it hangs")
    terminate(game, run)
    assert game.ends(run) is CANCELED
    assert tries(game, run) == 1
    assert game.job("game.mp4").status is State.CANCELLED
    assert "The worker process had to be killed." not in game.messages(run)


def hangs(game: LaunchedProject, run: str, point: str) -> bool:
    if point == "energy_sealed":
        return any(game.state.glob("artifacts/energy/*/*"))
    return count(game, run, STARTED) == 1


def test_a_run_that_is_terminated_in_its_last_try_has_not_failed(game: LaunchedProject) -> None:
    game.set(KILL_AT="file_in_use*2:energy_entered,hang:energy_entered")
    (run,) = game.launch_due().values()
    eventually(lambda: tries(game, run) == 3, "it is in its last try")
    terminate(game, run)
    assert game.ends(run) is CANCELED
    assert game.job("game.mp4").status is State.CANCELLED


def test_a_run_keeps_its_lease_in_a_back_off_is_not_stalled_and_ends_when_it_is_terminated(
    game: LaunchedProject,
) -> None:
    back_off(game, LONG_S)
    game.set(KILL_AT="file_in_use:energy_entered", QUEUE__STALL_S="4", QUEUE__STALL_PER_HOUR_S="0")
    (run,) = game.launch_due().values()
    eventually(lambda: count(game, run, RETRY), "it waits")
    let_time_pass(12, unless=lambda: outcomes(game) != [(None, None)])  # longer than a lease, and than may be silent
    assert (outcomes(game), count(game, run, RETRY)) == ([(None, None)], 1)
    assert game.job("game.mp4").status is State.RUNNING
    terminate(game, run)
    assert game.ends(run, 8) is CANCELED, "before it would have been killed"
    assert tries(game, run) == 1
    assert outcomes(game) == [("cancelled", None)]


@pytest.mark.parametrize(("error", "ends"), [("file_in_use*1", SUCCESS), ("file_in_use", FAILURE)])
def test_a_worker_killed_in_a_back_off_is_followed_by_one_that_knows_of_the_tries_before(
    game: LaunchedProject, error: str, ends: dg.DagsterRunStatus
) -> None:
    back_off(game, LONG_S)
    game.set(KILL_AT=f"{error}:energy_entered")
    (run,) = game.launch_due().values()
    eventually(lambda: count(game, run, RETRY), "it waits")
    back_off(game, 0.05)
    os.kill(game.child_of(run), signal.SIGKILL)
    assert game.ends(run) is ends
    assert (tries(game, run), count(game, run, RETRY)) == (3, 2), "the error is raised anew in the second process"
    assert tries(game, run, "fingerprint") == 1
    job = game.job("game.mp4")
    assert job.crash_count == 1
    assert outcomes(game)[0] == ("crashed", "crashed")
    assert [one for one, _ in outcomes(game)[1:]] == ["succeeded" if ends is SUCCESS else "failed"]
