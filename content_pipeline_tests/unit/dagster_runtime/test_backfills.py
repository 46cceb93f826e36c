"""Jobs shown as backfills: a real manifest in SQLite, and the runs and backfills of a real Dagster instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.names import (
    BACKFILL_NOW_PRIORITY,
    BACKFILL_PRIORITY,
    BACKFILL_TAG,
    PARTITION_TAG,
)
from content_pipeline.dagster_runtime.private_api import BulkActionStatus
from content_pipeline.defs.sensors.dispatch_jobs import WINDOW, DueRun, due_runs
from content_pipeline.execution.names import PROCESS_VIDEO, VIDEO_PARTITIONS
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult
from content_pipeline.manifest.open import open_manifest
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.media.source import Signature
from content_pipeline.settings import ScheduleSettings, Settings

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


def stale(manifest: Manifest, folder: Path, instance: dg.DagsterInstance, count: int, priority: int) -> None:
    """Videos that were done once, and are to be done again."""
    paths = [folder / f"{number:04}.mp4" for number in range(count)]
    for path in paths:
        path.write_bytes(path.name.encode() * 100)
        signature = str(Signature.of(path.stat()))
        manifest.videos.save(KnownVideo(path, folder, path.stem, signature, f"sha256:{path.stem}", path.stem))
    manifest.jobs.enqueue([JobRequest(str(path), str(folder), priority=priority) for path in paths])
    for job in manifest.jobs.claim(ClaimRequest("test", count)):
        manifest.jobs.succeed(job.lease, JobResult(video_key=Path(job.subject).stem))
    instance.add_dynamic_partitions(VIDEO_PARTITIONS, [path.stem for path in paths])
    manifest.jobs.mark_dirty(JobFilter(), "test")


def launched(instance: dg.DagsterInstance, due: Sequence[DueRun]) -> list[dg.DagsterRun]:
    """What Dagster's daemon does with what a tick asks for."""
    return [
        instance.add_run(
            dg.DagsterRun(
                job_name=PROCESS_VIDEO,
                tags={**one.tags, PARTITION_TAG: one.partition_key},
                status=dg.DagsterRunStatus.STARTED,
            )
        )
        for one in due
    ]


def work(
    manifest: Manifest, instance: dg.DagsterInstance, due: Sequence[DueRun], runs: Sequence[dg.DagsterRun]
) -> None:
    for one, run in zip(due, runs, strict=True):
        (claimed,) = manifest.jobs.claim(ClaimRequest("test", job_ids=[one.job.job_id]))
        manifest.jobs.succeed(claimed.lease, JobResult(video_key=one.job.video_key))
        ended = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name)
        instance.report_dagster_event(ended, run.run_id)


def only_backfill(instance: dg.DagsterInstance) -> Any:
    (found,) = instance.get_backfills()
    return found


def test_the_night_s_jobs_are_one_backfill_that_ends_as_the_manifest_says(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    stale(manifest, tmp_path, instance, 3, BACKFILL_PRIORITY)
    due = due_runs(settings, instance, NIGHT)
    (backfill_id,) = {one.tags[BACKFILL_TAG] for one in due}
    runs = launched(instance, due)
    assert instance.get_backfills() == []  # its runs come first
    assert due_runs(settings, instance, NIGHT) == []
    begun = only_backfill(instance)
    assert (begun.backfill_id, begun.status) == (backfill_id, BulkActionStatus.REQUESTED)
    assert begun.title == "Nightly backfill: 3 videos"
    assert begun.asset_backfill_data.get_num_partitions() == 3
    work(manifest, instance, due, runs)
    due_runs(settings, instance, NIGHT)
    ended = only_backfill(instance)
    assert (ended.status, ended.backfill_end_timestamp is None) == (BulkActionStatus.COMPLETED_SUCCESS, False)
    assert manifest.jobs.counts()[State.SUCCEEDED] == 3


def test_what_the_night_is_to_do_waits_at_noon_and_nothing_is_shown_as_begun(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    stale(manifest, tmp_path, instance, 3, BACKFILL_PRIORITY)
    assert due_runs(settings, instance, NOON) == []
    assert instance.get_backfills() == []
    ids = [job.job_id for job in manifest.jobs.list()]
    assert manifest.jobs.raise_priority(ids, BACKFILL_NOW_PRIORITY) == 3  # a person does not want to wait
    due = due_runs(settings, instance, NOON)
    assert len({one.tags[BACKFILL_TAG] for one in due}) == 1
    launched(instance, due)
    due_runs(settings, instance, NOON)
    assert only_backfill(instance).title == "Backfill by hand: 3 videos"


def test_a_large_backfill_fills_no_queue_and_all_of_its_runs_are_its_own(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    stale(manifest, tmp_path, instance, 3 * WINDOW, BACKFILL_NOW_PRIORITY)
    seen: set[str] = set()
    for _ in range(3):
        due = due_runs(settings, instance, NOON)
        assert len(due) == WINDOW
        runs = launched(instance, due)
        assert due_runs(settings, instance, NOON) == []
        seen |= {one.tags[BACKFILL_TAG] for one in due}
        work(manifest, instance, due, runs)
    due_runs(settings, instance, NOON)
    assert {only_backfill(instance).backfill_id} == seen
    assert only_backfill(instance).status is BulkActionStatus.COMPLETED_SUCCESS
    assert only_backfill(instance).asset_backfill_data.get_num_partitions() == 3 * WINDOW


def test_a_backfill_with_a_failed_video_ends_as_failed(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    stale(manifest, tmp_path, instance, 2, BACKFILL_PRIORITY)
    due = due_runs(settings, instance, NIGHT)
    runs = launched(instance, due)
    due_runs(settings, instance, NIGHT)
    work(manifest, instance, due[:1], runs[:1])
    manifest.jobs.cancel(JobFilter(job_ids=[due[1].job.job_id]))
    instance.report_run_canceled(runs[1])
    due_runs(settings, instance, NIGHT)
    assert only_backfill(instance).status is BulkActionStatus.COMPLETED_FAILED


def test_what_the_night_did_not_get_to_waits_for_the_next_and_the_backfill_says_so(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    stale(manifest, tmp_path, instance, WINDOW + 5, BACKFILL_PRIORITY)
    due = due_runs(settings, instance, NIGHT)
    runs = launched(instance, due)
    due_runs(settings, instance, NIGHT)
    work(manifest, instance, due, runs)
    assert due_runs(settings, instance, NOON) == []
    ended = only_backfill(instance)
    assert ended.status is BulkActionStatus.CANCELED
    assert "5 videos of 37 wait for the next night" in ended.description
    assert len(manifest.jobs.waiting_with_priority(BACKFILL_PRIORITY)) == 5
    again = due_runs(settings, instance, NIGHT)
    assert len(again) == 5
    assert {one.tags[BACKFILL_TAG] for one in again} != {ended.backfill_id}


def test_a_backfill_that_a_person_cancels_takes_what_had_no_run_yet_with_it(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    stale(manifest, tmp_path, instance, WINDOW + 5, BACKFILL_NOW_PRIORITY)
    due = due_runs(settings, instance, NOON)
    runs = launched(instance, due)
    due_runs(settings, instance, NOON)
    work(manifest, instance, due, runs)
    instance.update_backfill(only_backfill(instance).with_status(BulkActionStatus.CANCELING))
    assert due_runs(settings, instance, NOON) == []
    instance.update_backfill(only_backfill(instance).with_status(BulkActionStatus.CANCELED))
    assert due_runs(settings, instance, NOON) == []
    assert manifest.jobs.counts()[State.CANCELLED] == 5
    manifest.jobs.resume(JobFilter())  # what a person resumes after that is theirs again
    assert len(due_runs(settings, instance, NOON)) == 5


def test_ordinary_jobs_belong_to_no_backfill(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    stale(manifest, tmp_path, instance, 2, 0)
    due = due_runs(settings, instance, NOON)
    assert len(due) == 2
    assert not any(BACKFILL_TAG in one.tags for one in due)
