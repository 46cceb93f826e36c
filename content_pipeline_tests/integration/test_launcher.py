"""The run launcher, judged by killing what it is made of: real runs, a real supervisor, real children."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.names import BACKFILL_PRIORITY, JOB_TAG, PARENT_RUN_TAG
from content_pipeline.defs.sensors.dispatch_jobs import due_runs
from content_pipeline.errors import RetryPolicy
from content_pipeline.launchers.local.run_launcher import ensure_supervisor
from content_pipeline.launchers.reconcile import reconcile
from content_pipeline.library.recipe import recipe_of
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import ClaimRequest, JobFailure
from content_pipeline.stage import VIDEO_STAGES
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.chaos import SIZE
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project

SUCCESS, FAILURE, CANCELED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)
SUPERVISOR_POINTS = ["identified", "energy_sealed", "before_commit"]
CHILD_POINTS = ["energy_sealed", "montage_sealed"]
if SIZE == "full":
    SUPERVISOR_POINTS += ["run_created", "detections_sealed", "staged", "published", "run_ended", "committed"]
    CHILD_POINTS += ["fingerprint_sealed", "detections_sealed", "clip_sealed"]
SLOW = {"RENDER__MODE": "encode", "RENDER__PRESET": "veryslow"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchedProject]:
    with launched_project(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
def game(project: LaunchedProject, samples_folder: Path) -> LaunchedProject:
    """One recording, enqueued."""
    short = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    shutil.copy(short, project.library / "game.mp4")
    project.enqueue()
    return project


@pytest.fixture
def long_game(project: LaunchedProject, samples_folder: Path) -> LaunchedProject:
    """One recording whose montage takes a while."""
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    shutil.copy(long, project.library / "game.mp4")
    project.set(**SLOW)
    project.enqueue()
    return project


def test_a_launched_run_is_carried_out_and_committed_and_the_supervisor_stays_for_the_next(
    game: LaunchedProject,
) -> None:
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    job = game.job("game.mp4")
    assert (job.status, job.run_id, job.attempt_count) == (State.SUCCEEDED, run, 1)
    assert set(job.stage_keys) == {"fingerprint", "energy", "detections", "montage"}
    assert game.manifest.check() == []
    supervisor = game.supervisor()
    again = game.launch_by_hand(job.video_key)
    assert game.ends(again) is SUCCESS
    assert game.supervisor() == supervisor
    assert game.job("game.mp4").status is State.SUCCEEDED
    assert game.launch_due() == {}


@pytest.mark.parametrize("point", CHILD_POINTS)
def test_a_killed_child_is_followed_by_another_that_goes_on_after_the_finished_steps(
    game: LaunchedProject, point: str
) -> None:
    game.set(KILL_AT=f"child:{point}")
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    job = game.job("game.mp4")
    assert (job.status, job.crash_count, job.run_id) == (State.SUCCEEDED, 1, run)
    assert [one.outcome for one in game.manifest.jobs.attempts(job.job_id)] == ["crashed", "succeeded"]
    steps = _steps_started(game, run)
    died_in = point.removesuffix("_sealed").replace("clip", "montage")
    assert {stage: steps.count(stage) for stage in VIDEO_STAGES} == {
        stage: 1 + (stage == died_in) for stage in VIDEO_STAGES
    }
    assert game.manifest.check() == []


def test_a_child_that_hangs_is_ended_as_stalled_and_the_run_goes_on(game: LaunchedProject) -> None:
    game.set(KILL_AT="hang:energy_sealed", QUEUE__STALL_S="8")
    (run,) = game.launch_due().values()
    child = game.child_of(run)
    assert game.ends(run, 180) is SUCCESS
    job = game.job("game.mp4")
    assert (job.status, job.crash_count, job.run_id) == (State.SUCCEEDED, 0, run)
    stalled, succeeded = game.manifest.jobs.attempts(job.job_id)
    assert (stalled.outcome, stalled.error_code, succeeded.outcome) == ("failed", "stalled", "succeeded")
    assert "no progress in energy for" in stalled.error
    assert "failpoints.py" in stalled.error and "context.py" in stalled.error, "where it hung, and who called that"
    assert any("no progress in energy" in message for message in game.messages(run))
    assert not _lives(child)
    assert game.manifest.check() == []


@pytest.mark.parametrize("point", SUPERVISOR_POINTS)
def test_a_killed_supervisor_is_followed_by_another_that_takes_over(
    game: LaunchedProject, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    game.set(KILL_AT=point)
    (run,) = game.launch_due().values()
    game.supervisor()
    monkeypatch.delenv("CONTENT_AI_KILL_AT")
    game.restart_supervisor()
    assert game.ends(run) in (SUCCESS, CANCELED)
    for again in game.launch_due().values():  # the run had ended, and nobody lived to say so of the job
        assert game.ends(again) is SUCCESS
        assert _computed(game, again) == set()
    job = game.job("game.mp4")
    assert (job.status, job.crash_count) == (State.SUCCEEDED, 0)
    assert game.manifest.check() == []
    assert len(list(game.output.glob("*.mp4"))) == 1


def test_a_file_that_kills_its_worker_is_put_aside_and_the_others_finish(
    game: LaunchedProject, samples_folder: Path
) -> None:
    poison = samples.recording(samples_folder, "poison.mp4", seconds=8, bursts=((3, 4),))
    shutil.copy(poison, game.library / "poison.mp4")
    game.enqueue()
    runs = game.launch_due()
    killed: set[int] = set()

    def kill_its_worker() -> bool:
        launch = game.launch_queue.get(runs["poison.mp4"])
        if launch is not None and launch.pid is not None and launch.pid not in killed:
            killed.add(launch.pid)
            os.kill(launch.pid, signal.SIGSEGV)
        return launch is None

    eventually(kill_its_worker, "the poison was put aside")
    assert game.ends(runs["poison.mp4"]) is FAILURE
    assert game.ends(runs["game.mp4"]) is SUCCESS
    job = game.job("poison.mp4")
    assert (job.status, job.crash_count, job.error_code) == (State.FAILED, 2, "crashed")
    assert "SIGSEGV" in job.last_error
    assert f"content-ai process --input {job.subject}" in job.last_error
    assert any("SIGSEGV" in message for message in game.messages(runs["poison.mp4"]))


def test_a_terminated_run_ends_as_cancelled_with_its_job_and_all_its_processes(long_game: LaunchedProject) -> None:
    (run,) = long_game.launch_due().values()
    child = long_game.child_of(run)
    eventually(lambda: _started_by(child), "ffmpeg runs")
    ffmpeg = _started_by(child)
    with long_game.instance() as instance:
        assert instance.run_launcher.terminate(run)
    assert long_game.ends(run, 20) is CANCELED
    assert long_game.job("game.mp4").status is State.CANCELLED
    assert not any(_lives(pid) for pid in {child, *ffmpeg})
    with long_game.instance() as instance:
        assert not instance.run_launcher.terminate(run)


def test_a_run_that_has_to_wait_says_why(game: LaunchedProject) -> None:
    with game.instance() as instance:
        (due,) = due_runs(game.settings, instance, datetime.now(UTC))
        (job,) = game.manifest.jobs.claim(ClaimRequest("somebody"))
        game.manifest.jobs.fail(job.lease, JobFailure("disk_full", "no room", RetryPolicy.ENVIRONMENTAL))
        run = game._launch(instance, due.partition_key, f"{job.job_id}:{job.claim_count + 1}")
    eventually(lambda: any("Waiting: its job is waiting" in message for message in game.messages(run)), "it says why")
    with game.instance() as instance:
        assert instance.run_launcher.terminate(run)
    assert game.ends(run, 30) is CANCELED


def test_a_run_is_terminated_before_a_worker_took_it(game: LaunchedProject) -> None:
    game.set(KILL_AT="identified")
    (run,) = game.launch_due().values()
    eventually(lambda: game.supervisor(), "a supervisor")
    eventually(lambda: game.supervisor_lock.holder() is None, "it died")
    with game.instance() as instance:
        assert instance.run_launcher.terminate(run)
    assert game.ends(run, 30) is CANCELED
    assert game.job("game.mp4").status is State.CANCELLED


def test_a_partition_that_is_being_worked_on_is_refused(long_game: LaunchedProject) -> None:
    (run,) = long_game.launch_due().values()
    eventually(lambda: long_game.job("game.mp4").video_key, "the job runs")
    second = long_game.launch_by_hand(long_game.job("game.mp4").video_key)
    assert long_game.ends(second) is FAILURE
    assert any(f"is already being processed by run {run}" in message for message in long_game.messages(second))
    assert long_game.job("game.mp4").run_id == run
    assert long_game.status(run) is dg.DagsterRunStatus.STARTED


def test_the_same_attempt_delivered_twice_is_done_once(game: LaunchedProject) -> None:
    (first,) = game.launch_due().values()
    with game.instance() as instance:
        tag = instance.get_run_by_id(first).tags["content-ai/job"]
        key = instance.get_run_by_id(first).tags["dagster/partition"]
        second = game._launch(instance, key, tag)
    assert {game.ends(first), game.ends(second)} == {SUCCESS, CANCELED}
    assert game.job("game.mp4").claim_count == 1


def test_a_run_of_some_assets_claims_too_and_leaves_the_rest_to_be_done(game: LaunchedProject) -> None:
    (run,) = game.launch_due().values()
    game.ends(run)
    game.set(DETECTION__RMS_THRESHOLD="0.2")
    some = game.launch_by_hand(game.job("game.mp4").video_key, "detections")
    assert game.ends(some) is SUCCESS
    job = game.job("game.mp4")
    assert (job.status, job.attempt_count) == (State.PENDING, 0)
    (rest,) = game.launch_due().values()
    assert game.ends(rest) is SUCCESS
    assert _computed(game, rest) <= {"montage"}
    assert game.job("game.mp4").status is State.SUCCEEDED


def test_what_a_run_of_some_assets_leaves_does_not_wait_for_the_night(game: LaunchedProject) -> None:
    """Although the job was last asked for by a nightly backfill."""
    game.set(SCHEDULE__QUIET_HOURS=_hours_that_are_not_now())
    (run,) = game.launch_due().values()
    game.ends(run)
    game.manifest.jobs.mark_dirty(JobFilter(), "detections: a setting", BACKFILL_PRIORITY)
    assert game.launch_due() == {}
    some = game.launch_by_hand(game.job("game.mp4").video_key, "detections")
    assert game.ends(some) is SUCCESS
    (rest,) = game.launch_due().values()
    assert game.ends(rest) is SUCCESS
    assert game.job("game.mp4").status is State.SUCCEEDED


def _hours_that_are_not_now() -> str:
    start = (datetime.now(UTC).hour + 11) % 24
    return f"{start:02}:00-{(start + 1) % 24:02}:00"


def test_a_drained_supervisor_gives_back_what_does_not_end_in_time_and_the_run_goes_on(
    long_game: LaunchedProject,
) -> None:
    (run,) = long_game.launch_due().values()
    eventually(lambda: "detections" in _steps_started(long_game, run), "it is under way")
    os.kill(long_game.supervisor(), signal.SIGTERM)
    eventually(lambda: long_game.supervisor_lock.holder() is None, "it is gone", 20)
    job = long_game.job("game.mp4")
    assert (job.status, job.attempt_count, job.crash_count) == (State.PENDING, 0, 0)
    assert long_game.status(run) is dg.DagsterRunStatus.STARTED
    long_game.set(RENDER__PRESET="ultrafast")
    with long_game.instance() as instance:  # as the run monitor does
        health = instance.run_launcher.check_run_worker_health(instance.get_run_by_id(run))
        assert health.status.value == "FAILED"
        instance.resume_run(run, None, 1)
    assert long_game.ends(run) is SUCCESS
    assert _steps_started(long_game, run).count("energy") == 1
    assert long_game.job("game.mp4").status is State.SUCCEEDED


def test_a_supervisor_stops_when_it_is_idle_and_leaves_nothing_behind(game: LaunchedProject) -> None:
    ensure_supervisor(game.home, idle_s=0.5)
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    eventually(lambda: not game.leftovers(), "nothing is left", 30)
    assert game.supervisor_lock.holder() is None


def test_the_health_of_a_run_is_told_and_its_worker_described(long_game: LaunchedProject) -> None:
    (run,) = long_game.launch_due().values()
    child = long_game.child_of(run)
    with long_game.instance() as instance:
        launcher, record = instance.run_launcher, instance.get_run_by_id(run)
        assert launcher.supports_resume_run and launcher.supports_check_run_worker_health
        assert launcher.check_run_worker_health(record).status.value == "RUNNING"
        assert f"pid {child}" in launcher.get_run_worker_debug_info(record)


def test_a_launch_that_cannot_be_understood_stops_no_other(
    game: LaunchedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_supervisor(game.home)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    strange = game.launch_by_hand("no-such-video-0123456789")
    monkeypatch.chdir(tmp_path)
    gone.rmdir()
    (game.home / "launches" / "not-json.json").write_text("{")
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    assert game.ends(strange) is FAILURE
    assert "not-json" not in game.launch_queue.run_ids()


def test_a_run_that_a_person_executes_again_counts_as_one_by_hand(game: LaunchedProject) -> None:
    (run,) = game.launch_due().values()
    game.ends(run)
    with game.instance() as instance:
        first = instance.get_run_by_id(run)
        again = game._launch(instance, first.tags["dagster/partition"], first.tags[JOB_TAG], more={PARENT_RUN_TAG: run})
    assert game.ends(again) is SUCCESS
    assert game.job("game.mp4").run_id == again


def test_a_run_that_is_terminated_in_the_queue_takes_its_job_along_until_it_is_resumed(game: LaunchedProject) -> None:
    with game.instance() as instance:
        (due,) = due_runs(game.settings, instance, datetime.now(UTC))
        queued = game._create(instance, due.partition_key, due.tag)
        instance.report_run_canceling(queued)
        instance.report_run_canceled(queued)
        assert due_runs(game.settings, instance, datetime.now(UTC)) == []
        assert game.job("game.mp4").status is State.CANCELLED
        game.manifest.jobs.resume(JobFilter())
        (again,) = due_runs(game.settings, instance, datetime.now(UTC))
    assert again.run_key != due.run_key


def test_runs_that_fail_before_they_claim_do_not_follow_each_other_for_ever(game: LaunchedProject) -> None:
    with game.instance() as instance:
        for _ in range(3):
            (due,) = due_runs(game.settings, instance, datetime.now(UTC))
            instance.report_run_failed(game._create(instance, due.partition_key, due.tag), "no worker could be started")
        assert due_runs(game.settings, instance, datetime.now(UTC)) == []
    job = game.job("game.mp4")
    assert (job.status, job.attempt_count) == (State.PENDING, 1)
    assert "before they started to work" in job.last_error


def test_a_supervisor_that_hangs_is_replaced(long_game: LaunchedProject) -> None:
    (run,) = long_game.launch_due().values()
    long_game.child_of(run)
    hung = long_game.supervisor()
    os.kill(hung, signal.SIGSTOP)
    long_ago = time.monotonic() - 3600
    os.utime(long_game.home / "launches" / "supervisor.beat", (long_ago, long_ago))
    long_game.set(RENDER__PRESET="ultrafast")
    with long_game.instance() as instance:
        health = instance.run_launcher.check_run_worker_health(instance.get_run_by_id(run))
        assert health.status.value == "FAILED"
    ensure_supervisor(long_game.home)
    eventually(
        lambda: getattr(long_game.supervisor_lock.holder(), "pid", None) not in (None, hung), "another one lives"
    )
    with long_game.instance() as instance:
        instance.run_launcher.terminate(run)
    assert long_game.ends(run) is CANCELED


def test_a_run_that_its_command_created_and_never_started_is_closed(
    game: LaunchedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    game.set(KILL_AT="run_created")
    command = [sys.executable, "-m", "content_pipeline.cli", "process", "--input", str(game.library)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    monkeypatch.delenv("CONTENT_AI_KILL_AT")
    with game.instance() as instance:
        (lost,) = instance.get_runs()
        assert due_runs(game.settings, instance, datetime.now(UTC)) == []
        mended = reconcile(game.settings, instance)
        assert (mended["jobs rescued"], mended["runs closed"]) == (1, 1)
        assert instance.get_run_by_id(lost.run_id).status is FAILURE
        assert len(due_runs(game.settings, instance, datetime.now(UTC))) == 1


def test_the_daemon_clears_up_what_a_killed_process_left_in_the_output_folder(
    game: LaunchedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    game.set(KILL_AT="staged")
    command = [sys.executable, "-m", "content_pipeline.cli", "process", "--input", str(game.library)]
    subprocess.run(command, capture_output=True, check=False)
    monkeypatch.delenv("CONTENT_AI_KILL_AT")
    assert list(game.settings.output_dir.glob(".*.part"))
    with game.instance() as instance:
        reconcile(game.settings, instance)
    assert not list(game.settings.output_dir.glob(".*"))


def test_a_manifest_that_is_deleted_mid_run_loses_nothing(long_game: LaunchedProject) -> None:
    (run,) = long_game.launch_due().values()
    eventually(lambda: "montage" in _steps_started(long_game, run), "it is under way")
    for path in long_game.state.glob("queue.db*"):
        path.unlink()
    assert long_game.ends(run) is FAILURE  # nobody could commit what it makes
    long_game.set(RENDER__PRESET="ultrafast")
    with long_game.instance() as instance:
        reconcile(long_game.settings, instance)
    long_game.enqueue()
    (again,) = long_game.launch_due().values()
    assert long_game.ends(again) is SUCCESS
    assert _computed(long_game, again) == {"montage"}
    assert long_game.job("game.mp4").status is State.SUCCEEDED
    assert long_game.manifest.check() == []


def _ask(project: LaunchedProject, *flags: str) -> None:
    """As a person does who registers recordings and leaves the work to the daemon."""
    command = [sys.executable, "-m", "content_pipeline.cli", "process", "--input", str(project.library)]
    subprocess.run([*command, "--no-process", *flags], capture_output=True, check=True)


def _clips(folder: Path) -> int:
    (document,) = folder.glob("*.json")
    return len(json.loads(document.read_text())["cuts"])


@pytest.fixture
def two_highlights(project: LaunchedProject, samples_folder: Path) -> LaunchedProject:
    two = samples.recording(samples_folder, "two.mp4", seconds=40, bursts=((10, 11), (30, 31)))
    shutil.copy(two, project.library / "game.mp4")
    return project


def test_a_command_s_job_is_dispatched_with_its_own_settings_and_the_daemon_s_with_those_of_the_file(
    two_highlights: LaunchedProject, tmp_path: Path
) -> None:
    game = two_highlights
    _ask(game, "-o", "foo", "--max-segments", "1")
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    assert _clips(tmp_path / "foo") == 1
    assert not game.output.exists()
    job = game.job("game.mp4")
    assert game.ends(game.launch_by_hand(job.video_key)) is SUCCESS  # whoever works on it: as it was asked for
    assert (_clips(tmp_path / "foo"), game.output.exists()) == (1, False)
    assert game.job("game.mp4").config_hash == job.config_hash

    game.enqueue()  # as the nightly backfill does: with the settings as they are, and as they will be
    assert game.job("game.mp4").options is None
    game.set(RENDER__CRF="20")
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    assert _clips(game.output) == 2
    assert game.job("game.mp4").config_hash == recipe_of(game.settings).config_hash


def test_a_force_reaches_the_supervisor_and_outlives_its_children(two_highlights: LaunchedProject) -> None:
    game = two_highlights
    game.enqueue()
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    artifacts = game.state / "artifacts"
    before = {path: path.stat().st_ino for path in artifacts.glob("*/*/*")}
    _ask(game, "-o", str(game.output), "--force")
    os.kill(game.supervisor(), signal.SIGKILL)
    eventually(lambda: game.supervisor_lock.holder() is None, "the supervisor is gone")
    game.set(KILL_AT="child:detections_sealed")  # for the next one
    (run,) = game.launch_due().values()
    assert game.ends(run) is SUCCESS
    job = game.job("game.mp4")
    assert (job.crash_count, job.force_id) == (1, None)
    assert all(path.stat().st_ino != inode for path, inode in before.items())
    assert _computed(game, run) == {"fingerprint", "energy", "montage"}  # the dead child had made the detections


def _steps_started(project: LaunchedProject, run_id: str) -> list[str]:
    with project.instance() as instance:
        logs = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START)
        return [log.step_key for log in logs]


def _computed(project: LaunchedProject, run_id: str) -> set[str]:
    """The stages that a run did not find done."""
    with project.instance() as instance:
        logs = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
        made = [log.asset_materialization for log in logs]
        return {one.asset_key.to_user_string() for one in made if not one.metadata["reused"].value}


def _started_by(pid: int) -> set[int]:
    """The processes that a child has started and that live."""
    return {int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _fields(folder)[1:2] == [str(pid)]}


def _lives(pid: int) -> bool:
    return _fields(Path(f"/proc/{pid}"))[:1] not in ([], ["Z"], ["X"])


def _fields(folder: Path) -> list[str]:
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
