"""Backfills of ours, and Dagster's own daemon, which ends a backfill in which nothing goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import StepMaterializationData
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration

from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import BACKFILL_NOW_PRIORITY, BACKFILL_TAG, PARTITION_TAG, WILL_RETRY_TAG
from content_pipeline.dagster_runtime.private_api import MODULE, BulkActionStatus
from content_pipeline.definitions import build_definitions
from content_pipeline.defs.sensors.dispatch_jobs import DueRun, due_runs
from content_pipeline.errors import RetryPolicy
from content_pipeline.execution.names import PROCESS_VIDEO
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobFailure
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import Settings
from content_pipeline.stage import VIDEO_STAGES
from content_pipeline_tests.unit.dagster_runtime.test_backfills import NOON, only_backfill, stale, work

Tick = Callable[[], None]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state", workers=1)


@pytest.fixture
def manifest(settings: Settings) -> Manifest:
    return open_manifest(settings)


@pytest.fixture
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    with open_instance(settings) as instance:
        yield instance


@pytest.fixture
def daemon_tick(instance: dg.DagsterInstance) -> Iterator[Tick]:
    """One look of Dagster's daemon at all backfills."""
    here = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name=MODULE), location_name="content_pipeline")
    with create_test_daemon_workspace_context(InProcessWorkspaceLoadTarget(here), instance) as context:

        def tick() -> None:
            errors = [error for error in execute_backfill_iteration(context, logging.getLogger("daemon")) if error]
            assert not errors

        yield tick


def started(instance: dg.DagsterInstance, settings: Settings, due: DueRun) -> dg.DagsterRun:
    """A run that plans to make every stage, as Dagster's daemon launches it."""
    return instance.create_run_for_job(
        build_definitions(settings).resolve_job_def(PROCESS_VIDEO),
        tags={**due.tags, PARTITION_TAG: due.partition_key},
        status=dg.DagsterRunStatus.STARTED,
    )


def materialize(instance: dg.DagsterInstance, run: dg.DagsterRun, stages: Sequence[str] = VIDEO_STAGES) -> None:
    for stage in stages:
        made = dg.AssetMaterialization(stage, partition=run.tags[PARTITION_TAG])
        event = dg.DagsterEvent(
            dg.DagsterEventType.ASSET_MATERIALIZATION.value,
            run.job_name,
            event_specific_data=StepMaterializationData(made),
        )
        instance.report_dagster_event(event, run.run_id)


def fail(
    manifest: Manifest, instance: dg.DagsterInstance, due: DueRun, run: dg.DagsterRun, policy: RetryPolicy
) -> None:
    (claimed,) = manifest.jobs.claim(ClaimRequest("test", job_ids=[due.job.job_id]))
    manifest.jobs.fail(claimed.lease, JobFailure("some_code", "on purpose", policy, "energy"))
    instance.report_run_failed(run)


def shown_counts(instance: dg.DagsterInstance, settings: Settings, asset: str = "montage") -> list[int]:
    """What the UI shows of one asset of the only backfill: made, failed, in progress."""
    graph = build_definitions(settings).resolve_asset_graph()
    shown = only_backfill(instance).asset_backfill_data.get_backfill_status_per_asset_key(graph)
    assert {one.asset_key.to_user_string() for one in shown} == set(VIDEO_STAGES)
    (its,) = (one for one in shown if one.asset_key == dg.AssetKey(asset))
    return list(its.partitions_counts_by_status.values())


def test_a_backfill_all_of_whose_jobs_wait_for_their_retry_goes_on(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path, daemon_tick: Tick
) -> None:
    stale(manifest, tmp_path, instance, 2, BACKFILL_NOW_PRIORITY)
    due = due_runs(settings, instance, NOON)
    runs = [started(instance, settings, one) for one in due]
    due_runs(settings, instance, NOON)
    for one, run in zip(due, runs, strict=True):
        fail(manifest, instance, one, run, RetryPolicy.TRANSIENT)
    for _ in range(3):
        daemon_tick()
        assert only_backfill(instance).status is BulkActionStatus.REQUESTED
        assert due_runs(settings, instance, NOON) == []  # both wait
    assert {instance.get_run_by_id(run.run_id).tags[WILL_RETRY_TAG] for run in runs} == {"true"}


@pytest.mark.expected_errors
def test_a_run_that_failed_for_good_is_not_said_to_be_retried_and_its_backfill_ends_as_failed(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path, daemon_tick: Tick
) -> None:
    stale(manifest, tmp_path, instance, 2, BACKFILL_NOW_PRIORITY)
    due = due_runs(settings, instance, NOON)
    runs = [started(instance, settings, one) for one in due]
    due_runs(settings, instance, NOON)
    materialize(instance, runs[0], ["fingerprint"])
    fail(manifest, instance, due[0], runs[0], RetryPolicy.PERMANENT)
    due_runs(settings, instance, NOON)  # while the other goes on
    assert instance.get_run_by_id(runs[0].run_id).tags[WILL_RETRY_TAG] == "false"
    materialize(instance, runs[1])
    work(manifest, instance, due[1:], runs[1:])
    daemon_tick()
    due_runs(settings, instance, NOON)
    assert only_backfill(instance).status is BulkActionStatus.COMPLETED_FAILED
    assert shown_counts(instance, settings) == [1, 1, 0]
    assert shown_counts(instance, settings, "fingerprint") == [2, 0, 0], "what came before the failure was made"
    due_runs(settings, instance, NOON)
    assert only_backfill(instance).status is BulkActionStatus.COMPLETED_FAILED, "it stays ended"


def test_a_backfill_that_dagster_ended_while_nobody_looked_goes_on(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path, daemon_tick: Tick
) -> None:
    stale(manifest, tmp_path, instance, 2, BACKFILL_NOW_PRIORITY)
    first, second = due_runs(settings, instance, NOON)
    run = started(instance, settings, first)
    due_runs(settings, instance, NOON)
    materialize(instance, run)
    work(manifest, instance, [first], [run])
    for _ in range(3):  # the code location is away: no sensor looks
        daemon_tick()
    assert only_backfill(instance).status is BulkActionStatus.COMPLETED_FAILED
    (again,) = due_runs(settings, instance, NOON)
    assert only_backfill(instance).status is BulkActionStatus.REQUESTED
    assert shown_counts(instance, settings) == [1, 0, 1]
    assert (again.partition_key, again.tags[BACKFILL_TAG]) == (second.partition_key, first.tags[BACKFILL_TAG])
    run = started(instance, settings, again)
    materialize(instance, run)
    work(manifest, instance, [again], [run])
    due_runs(settings, instance, NOON)
    assert only_backfill(instance).status is BulkActionStatus.COMPLETED_SUCCESS


def test_a_backfill_whose_jobs_have_no_run_for_a_while_goes_on(
    settings: Settings, manifest: Manifest, instance: dg.DagsterInstance, tmp_path: Path, daemon_tick: Tick
) -> None:
    stale(manifest, tmp_path, instance, 2, BACKFILL_NOW_PRIORITY)
    first, _second = due_runs(settings, instance, NOON)
    run = started(instance, settings, first)
    due_runs(settings, instance, NOON)
    materialize(instance, run)
    work(manifest, instance, [first], [run])
    for _ in range(4):
        daemon_tick()
        assert only_backfill(instance).status is BulkActionStatus.REQUESTED
        due_runs(settings, instance, NOON)  # asks for the second, which nobody launches
    assert shown_counts(instance, settings) == [1, 0, 1], "what is shown is true: one made, none failed, one to do"
