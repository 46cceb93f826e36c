"""Which jobs become runs: decided from a real manifest in SQLite and the runs of a real Dagster instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.names import BACKFILL_PRIORITY, JOB_TAG
from content_pipeline.defs.sensors.dispatch_jobs import MOST_VAIN_RUNS, WINDOW, DueRun, due_runs, is_quiet
from content_pipeline.execution.names import PROCESS_VIDEO, job_tag
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job, JobRequest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import QueueSettings, ScheduleSettings, Settings

NIGHT, NOON = datetime(2026, 5, 1, 3, tzinfo=UTC), datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    schedule = ScheduleSettings(quiet_hours="01:00-06:00", timezone="UTC")
    return Settings(state_dir=tmp_path / "state", workers=1, schedule=schedule)


@pytest.fixture
def manifest(settings: Settings) -> Manifest:
    return open_manifest(settings)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def job(manifest: Manifest, tmp_path: Path) -> Job:
    return enqueue(manifest, tmp_path, "game.mp4")


def enqueue(manifest: Manifest, folder: Path, name: str, priority: int = 0, requires: str | None = None) -> Job:
    path = folder / name
    path.write_bytes(name.encode() * 100)
    manifest.jobs.enqueue([JobRequest(str(path), str(folder), priority=priority, requires=requires)])
    return next(job for job in manifest.jobs.list() if job.subject == str(path))


def add_run(instance: dg.DagsterInstance, job: Job, status: dg.DagsterRunStatus) -> None:
    """Ended by an event, as runs are: that sets the exact time of their end."""
    tags = {JOB_TAG: job_tag(job.job_id, job.claim_count + 1)}
    ends = {
        dg.DagsterRunStatus.FAILURE: instance.report_run_failed,
        dg.DagsterRunStatus.CANCELED: instance.report_run_canceled,
    }
    begun = dg.DagsterRunStatus.STARTED if status in ends else status
    run = instance.add_run(dg.DagsterRun(job_name=PROCESS_VIDEO, tags=tags, status=begun))
    if status in ends:
        ends[status](run)


def names(due: Sequence[DueRun]) -> set[str]:
    return {Path(one.job.subject).name for one in due}


def test_a_waiting_job_becomes_a_run_of_its_next_attempt(
    settings: Settings, instance: dg.DagsterInstance, job: Job
) -> None:
    (due,) = due_runs(settings, instance, NOON)
    tag = job_tag(job.job_id, 1)
    assert (due.job.job_id, due.tag, due.run_key) == (job.job_id, tag, f"{tag}:0")
    assert due.partition_key.startswith("game-")


@pytest.mark.parametrize(
    ("earlier", "is_due", "state"),
    [
        ([dg.DagsterRunStatus.NOT_STARTED], False, State.PENDING),
        ([dg.DagsterRunStatus.STARTED], False, State.PENDING),
        ([dg.DagsterRunStatus.CANCELING], False, State.PENDING),
        ([dg.DagsterRunStatus.FAILURE], True, State.PENDING),
        ([dg.DagsterRunStatus.FAILURE] * (MOST_VAIN_RUNS - 1), True, State.PENDING),
        ([dg.DagsterRunStatus.CANCELED], False, State.CANCELLED),
    ],
    ids=["not started", "started", "canceling", "failed once", "failed almost too often", "terminated by a person"],
)
def test_a_job_follows_what_became_of_the_runs_of_its_attempt(
    settings: Settings,
    manifest: Manifest,
    instance: dg.DagsterInstance,
    job: Job,
    earlier: list[dg.DagsterRunStatus],
    is_due: bool,
    state: State,
) -> None:
    for status in earlier:
        add_run(instance, job, status)
    due = due_runs(settings, instance, NOON)
    assert [one.run_key for one in due] == ([f"{job_tag(job.job_id, 1)}:{len(earlier)}"] if is_due else [])
    found = manifest.jobs.get(job.job_id)
    assert (found.status, found.attempt_count) == (state, 0)


def test_runs_that_fail_too_often_before_they_work_cost_the_job_an_attempt(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, job: Job
) -> None:
    for _ in range(MOST_VAIN_RUNS):
        add_run(instance, job, dg.DagsterRunStatus.FAILURE)
    assert due_runs(settings, instance, NOON) == []
    found = manifest.jobs.get(job.job_id)
    assert found.attempt_count == 1 and "failed before they started to work" in str(found.last_error)


def test_a_recording_that_is_gone_fails_in_its_place_and_keeps_nobody_waiting(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, job: Job, tmp_path: Path
) -> None:
    enqueue(manifest, tmp_path, "other.mp4")
    Path(job.subject).unlink()
    assert names(due_runs(settings, instance, NOON)) == {"other.mp4"}
    found = manifest.jobs.get(job.job_id)
    assert (found.status, found.error_code) == (State.FAILED, "missing_file")


@pytest.mark.parametrize(("now", "expected"), [(NOON, {"new.mp4"}), (NIGHT, {"new.mp4", "old.mp4"})])
def test_work_that_can_wait_is_left_to_the_quiet_hours(
    settings: Settings,
    manifest: Manifest,
    instance: dg.DagsterInstance,
    tmp_path: Path,
    now: datetime,
    expected: set[str],
) -> None:
    enqueue(manifest, tmp_path, "new.mp4")
    enqueue(manifest, tmp_path, "old.mp4", priority=BACKFILL_PRIORITY)
    assert names(due_runs(settings, instance, now)) == expected


def test_only_a_window_of_runs_is_open_at_a_time(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    jobs = [enqueue(manifest, tmp_path, f"{number}.mp4") for number in range(WINDOW + 2)]
    assert len(due_runs(settings, instance, NOON)) == WINDOW
    for job in jobs[: WINDOW - 1]:
        add_run(instance, job, dg.DagsterRunStatus.NOT_STARTED)
    (due,) = due_runs(settings, instance, NOON)
    add_run(instance, due.job, dg.DagsterRunStatus.NOT_STARTED)
    assert due_runs(settings, instance, NOON) == []


@pytest.mark.parametrize(
    ("hours", "clock", "quiet"),
    [
        ("01:00-06:00", "00:59", False),
        ("01:00-06:00", "01:00", True),
        ("01:00-06:00", "06:00", False),
        ("22:00-06:00", "21:59", False),
        ("22:00-06:00", "23:00", True),
        ("22:00-06:00", "05:59", True),
        ("22:00-06:00", "06:00", False),
    ],
)
def test_quiet_hours_may_go_over_midnight(hours: str, clock: str, quiet: bool) -> None:
    now = datetime.fromisoformat(f"2026-05-01T{clock}:00+02:00")
    assert is_quiet(ScheduleSettings(quiet_hours=hours, timezone="Europe/Berlin"), now) is quiet


def test_what_requires_something_is_asked_for_only_where_it_can_be_done_and_leaves_room_for_the_rest(
    settings: Settings, instance: dg.DagsterInstance, manifest: Manifest, tmp_path: Path
) -> None:
    special = [enqueue(manifest, tmp_path, f"a{number:02}.mp4", requires="nvenc") for number in range(WINDOW)]
    common = [enqueue(manifest, tmp_path, f"b{number:02}.mp4") for number in range(WINDOW)]
    assert {one.job.requires for one in due_runs(settings, instance, NIGHT)} == {None}
    can = settings.model_copy(update={"queue": QueueSettings(capabilities=("nvenc",))})
    due = [one.job.job_id for one in due_runs(can, instance, NIGHT)]
    half = WINDOW // 2
    assert due == [job.job_id for job in (*special[:half], *common[:half])], "the first come, a share for each"
    for job in special[:half]:
        add_run(instance, job, dg.DagsterRunStatus.STARTED)
    assert [one.job.job_id for one in due_runs(can, instance, NIGHT)] == [job.job_id for job in common[:half]]
