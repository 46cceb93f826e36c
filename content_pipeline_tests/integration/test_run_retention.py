"""Which of Dagster's runs are forgotten, and that nothing is missed afterwards: on SQLite and on Postgres."""

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, TickData, TickStatus

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import JOB_TAG, PARTITION_TAG
from content_pipeline.dagster_runtime.run_retention import forget_runs
from content_pipeline.dagster_runtime.storage import shrink
from content_pipeline.defs.checks import check_spec
from content_pipeline.execution.names import PROCESS_VIDEO, VIDEO_PARTITIONS
from content_pipeline.launchers.local.folder_launch_queue import FolderLaunchQueue
from content_pipeline.launchers.queue_launcher import launch_of
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import Settings
from content_pipeline.stage import VIDEO_STAGES
from content_pipeline_tests.helpers.records import KINDS, records_in

VIDEOS = dg.DynamicPartitionsDefinition(name=VIDEO_PARTITIONS)
SOON = timedelta(minutes=5)


def definitions() -> dg.Definitions:
    def build(name: str) -> dg.AssetsDefinition:
        check = check_spec(name, "fine", "Always.")

        @dg.asset(name=name, partitions_def=VIDEOS, check_specs=[check])
        def made(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
            if "fail" in context.run.tags:
                raise RuntimeError("as asked")
            passed = dg.AssetCheckResult(check_name="fine", passed=True)
            return dg.MaterializeResult(metadata={"run": context.run.run_id}, check_results=[passed])

        return made

    @dg.op
    def nothing() -> None:
        pass

    @dg.job
    def maintenance() -> None:
        nothing()

    assets = [build(name) for name in VIDEO_STAGES]
    job = dg.define_asset_job(PROCESS_VIDEO, list(VIDEO_STAGES))
    some = dg.define_asset_job("montage_only", ["montage"])
    return dg.Definitions(assets=assets, jobs=[job, some, maintenance], executor=dg.in_process_executor)


DEFINITIONS = definitions()


def run(instance: dg.DagsterInstance, key: str | None, job: str = PROCESS_VIDEO, **tags: str) -> str:
    """Execute a run of our code; its id."""
    definition = DEFINITIONS.resolve_job_def(job)
    if key is None:
        created = instance.create_run_for_job(definition, remote_job_origin=internals._remote_origin(job))
    else:
        instance.add_dynamic_partitions(VIDEO_PARTITIONS, [key])
        created = internals.create_run(instance, definition, key, tags)
    internals.execute(instance, definition, created, lambda: None)
    return created.run_id


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    with records_in(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def manifest(settings: Settings) -> Manifest:
    return open_manifest(settings)


@pytest.fixture
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    with open_instance(settings) as opened:
        yield opened


def forget(instance: dg.DagsterInstance, manifest: Manifest, old: bool = True, superseded: bool = True) -> int:
    """As if it were a little later (`old`: much later)."""
    later, earlier = datetime.now(UTC) + SOON, datetime.now(UTC) - SOON
    launched = FolderLaunchQueue(Path(instance.root_directory)).run_ids
    return forget_runs(instance, manifest, later if old else earlier, later if superseded else earlier, launched)


def runs(instance: dg.DagsterInstance) -> set[str]:
    return {one.run_id for one in instance.get_runs()}


def seen(instance: dg.DagsterInstance) -> dict[str, Any]:
    """What the UI shows of assets and partitions, and what a rebuild goes by."""
    found: dict[str, Any] = {}
    for name in VIDEO_STAGES:
        key = dg.AssetKey(name)
        latest = internals.latest_materializations(instance, name)
        found[f"{name} latest"] = dict(latest)
        records = instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=key, storage_ids=list(latest.values())), limit=100
        ).records
        found[f"{name} said"] = {one.partition_key: one.asset_materialization.metadata["run"].value for one in records}
        found[f"{name} partitions"] = instance.get_materialized_partitions(key)
        last = instance.get_latest_materialization_event(key)
        found[f"{name} last"] = None if last is None else last.run_id
        check = dg.AssetCheckKey(key, "fine")
        checks = instance.event_log_storage.get_latest_asset_check_execution_by_key([check])
        found[f"{name} check"] = {one.status for one in checks.values()}
        by_run = instance.event_log_storage.get_asset_check_execution_history(check, limit=1)
        found[f"{name} checked"] = [one.run_id for one in by_run]
    return found


def test_a_run_goes_when_all_it_made_was_made_again(instance: dg.DagsterInstance, manifest: Manifest) -> None:
    first, second = run(instance, "a"), run(instance, "a")
    only_montage = run(instance, "a", "montage_only")
    other = run(instance, "b")
    before = seen(instance)
    assert forget(instance, manifest) == 1
    assert runs(instance) == {second, only_montage, other}
    assert seen(instance) == before
    assert instance.all_logs(first) == []
    with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
        for table in ("event_logs", "asset_check_executions"):
            query = f"SELECT count(*) FROM {table} WHERE run_id = '{first}'"
            assert connection.exec_driver_sql(query).scalar_one() == 0
    assert forget(instance, manifest) == 0


def test_the_newest_run_of_a_video_stays_however_it_ended(instance: dg.DagsterInstance, manifest: Manifest) -> None:
    failed_before, failed = run(instance, "a", fail="yes"), run(instance, "a", fail="yes")
    made, failed_since = run(instance, "b"), run(instance, "b", fail="yes")
    before = seen(instance)
    assert forget(instance, manifest) == 1
    assert runs(instance) == {failed, made, failed_since}
    assert failed_before not in runs(instance)
    assert seen(instance) == before


def test_what_is_young_stays(instance: dg.DagsterInstance, manifest: Manifest) -> None:
    run(instance, "a"), run(instance, "a"), run(instance, None, "maintenance")
    assert forget(instance, manifest, old=False, superseded=False) == 0
    assert forget(instance, manifest, old=False) == 1  # superseded
    assert forget(instance, manifest) == 1  # about no video, and old


def test_a_run_whose_job_is_to_be_done_stays(instance: dg.DagsterInstance, manifest: Manifest) -> None:
    manifest.jobs.enqueue([JobRequest("/games/a.mp4", "/games")])
    (job,) = manifest.jobs.claim(ClaimRequest("worker"))
    waits = run(instance, "a", **{JOB_TAG: f"{job.job_id}:1"})
    run(instance, "a")
    assert forget(instance, manifest) == 0
    manifest.jobs.succeed(job.lease, JobResult())
    assert forget(instance, manifest) == 1
    assert waits not in runs(instance)


def test_runs_that_are_open_or_launched_or_of_others_stay(instance: dg.DagsterInstance, manifest: Manifest) -> None:
    job = DEFINITIONS.resolve_job_def(PROCESS_VIDEO)
    instance.add_dynamic_partitions(VIDEO_PARTITIONS, ["a"])
    waits = internals.create_run(instance, job, "a", {})
    launched = run(instance, "a", fail="yes")
    FolderLaunchQueue(Path(instance.root_directory)).add(launch_of(instance.get_run_by_id(launched)))
    others = instance.create_run_for_job(job, tags={PARTITION_TAG: "a"}, status=dg.DagsterRunStatus.FAILURE)
    superseded, last = run(instance, "a"), run(instance, "a")
    assert forget(instance, manifest) == 1
    assert runs(instance) == {waits.run_id, launched, others.run_id, last}
    assert superseded not in runs(instance)


def test_what_a_person_cleared_is_not_kept_for_ever(instance: dg.DagsterInstance, manifest: Manifest) -> None:
    run(instance, "a")
    kept = run(instance, "b")
    instance.delete_dynamic_partition(VIDEO_PARTITIONS, "a")
    assert forget(instance, manifest, old=False) == 0
    assert forget(instance, manifest) == 1
    assert runs(instance) == {kept}


def _work(settings: Settings, times: int) -> None:
    with open_instance(settings) as instance:
        for _ in range(times):
            run(instance, "busy")


def test_others_work_on_while_runs_are_forgotten(settings: Settings, manifest: Manifest) -> None:
    with open_instance(settings) as instance:
        for _ in range(3):
            run(instance, "a")
    workers = [multiprocessing.get_context("spawn").Process(target=_work, args=(settings, 3)) for _ in range(2)]
    for worker in workers:
        worker.start()
    with open_instance(settings) as instance:
        while any(worker.is_alive() for worker in workers):
            forget(instance, manifest)
            shrink(instance)
            workers[0].join(0.5)  # far more often than in life, but not without a pause
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0, 0]
        run(instance, "busy")  # of two runs at the same time each may hold the latest of something
        forget(instance, manifest)
        assert len(runs(instance)) == 2
        assert {status.status for status in instance.get_runs()} == {dg.DagsterRunStatus.SUCCESS}


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
@pytest.mark.parametrize("made_before", [False, True], ids=["made now", "made by an earlier version"])
def test_the_files_shrink(made_before: bool, settings: Settings, manifest: Manifest) -> None:
    with open_instance(settings) as instance:
        path = Path(instance.root_directory) / "history" / "event_log.db"
        for _ in range(8):
            run(instance, "a")
    if made_before:
        # In another process: to have a database open with two libraries is what the storage avoids.
        code = "import sys, sqlite3; sqlite3.connect(sys.argv[1]).executescript('PRAGMA auto_vacuum=0; VACUUM')"
        subprocess.run([sys.executable, "-c", code, path], check=True)
    with open_instance(settings) as instance:
        large = path.stat().st_size
        assert forget(instance, manifest) == 7
        shrink(instance)
        assert path.stat().st_size < large * 0.7
        assert len(seen(instance)["montage latest"]) == 1


def test_only_ticks_of_our_own_sensors_are_forgotten(instance: dg.DagsterInstance) -> None:
    """Another project may have a sensor in the same records, even of the same name."""
    ours = internals._remote_origin(PROCESS_VIDEO).repository_origin
    location = ours.code_location_origin
    theirs = RemoteRepositoryOrigin(
        ManagedGrpcPythonEnvCodeLocationOrigin(location.loadable_target_origin, "another_project"),
        ours.repository_name,
    )
    states = []
    for repository in (ours, theirs):
        origin = RemoteInstigatorOrigin(repository, "watch")
        state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING)
        instance.add_instigator_state(state)
        long_ago = (datetime.now(UTC) - timedelta(days=30)).timestamp()
        instance.create_tick(
            TickData(
                state.instigator_origin_id,
                "watch",
                InstigatorType.SENSOR,
                TickStatus.SKIPPED,
                long_ago,
                selector_id=state.selector_id,
            )
        )
        states.append(state)
    internals.forget_ticks(instance, datetime.now(UTC) - timedelta(days=1))
    left = [len(instance.get_ticks(state.instigator_origin_id, state.selector_id)) for state in states]
    assert left == [0, 1]
