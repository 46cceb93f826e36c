"""Many workers write to Dagster's records at once, and what the UI derives from their events is right."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.settings import Settings
from content_pipeline_tests.helpers.records import KINDS, records_in

WRITERS = 3
ASSETS = [f"asset{number}" for number in range(40)]
VIDEOS = dg.DynamicPartitionsDefinition(name="videos")
PARTITIONS_EACH = 8


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    with records_in(request.param, tmp_path) as found:
        yield found


def at_once(work: Callable[..., None], *args: Any) -> None:
    """The same work in several processes, which wait for each other at a barrier."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(WRITERS, timeout=120)
    writers = [context.Process(target=work, args=(number, together, *args)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS


# --- the latest materialization


def write(number: int, together: Barrier, settings: Settings) -> None:
    with open_instance(settings) as instance:
        for asset in ASSETS:
            together.wait()
            instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=str(number)))


def test_the_latest_materialization_of_an_asset_never_goes_back_to_an_older_one(settings: Settings) -> None:
    open_instance(settings).dispose()
    at_once(write, settings)
    with open_instance(settings) as instance:
        records = instance.get_asset_records([dg.AssetKey(asset) for asset in ASSETS])
        shown = {
            one.asset_entry.asset_key.to_user_string(): one.asset_entry.last_materialization_storage_id
            for one in records
        }
        newest = {asset: max(internals.latest_materializations(instance, asset).values()) for asset in ASSETS}
    assert shown == newest


# --- staleness


@dg.asset(partitions_def=VIDEOS, code_version="1")
def energy(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    return dg.MaterializeResult(data_version=dg.DataVersion(f"energy of {context.run_id}"))


@dg.asset(partitions_def=VIDEOS, code_version="1", deps=[energy])
def detections(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    return dg.MaterializeResult(data_version=dg.DataVersion(f"detections of {context.run_id}"))


DEFINITIONS = dg.Definitions(
    assets=[energy, detections],
    jobs=[dg.define_asset_job("process_video", [energy, detections], executor_def=dg.in_process_executor)],
)


def materialize(number: int, together: Barrier, settings: Settings) -> None:
    job = DEFINITIONS.resolve_job_def("process_video")
    with open_instance(settings) as instance:
        for count in range(PARTITIONS_EACH):
            key = f"{number}-{count}"
            instance.add_dynamic_partitions("videos", [key])
            run = internals.create_run(instance, job, key, {})
            together.wait()
            internals.execute(instance, job, run, lambda: None)


def test_no_partition_is_called_stale_whose_inputs_did_not_change(settings: Settings) -> None:
    open_instance(settings).dispose()
    at_once(materialize, settings)
    with open_instance(settings) as instance:
        keys = instance.get_dynamic_partitions("videos")
        resolver = CachingStaleStatusResolver(
            instance, DEFINITIONS.resolve_asset_graph(), LoadingContextForTest(instance)
        )
        status = {key: resolver.get_status(dg.AssetKey("detections"), key) for key in keys}
    assert len(keys) == WRITERS * PARTITIONS_EACH
    assert status == dict.fromkeys(keys, StaleStatus.FRESH)


# --- killed in between


def be_killed_between(settings: Settings, where: str) -> None:
    """After the event was inserted, before what is derived from it was written."""
    with open_instance(settings) as instance:
        storage = instance.event_log_storage
        setattr(storage, where, lambda *_args, **_given: os.kill(os.getpid(), signal.SIGKILL))
        tags = {"dagster/data_version": "2"}
        instance.report_runless_asset_event(dg.AssetMaterialization("energy", partition="a", tags=tags))


def stored(instance: dg.DagsterInstance) -> dict[str, Any]:
    with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
        return {
            table: connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
            for table in ("event_logs", "asset_keys", "asset_event_tags", "asset_check_executions")
        }


@pytest.mark.parametrize("where", ["_store_asset_event_tags", "_store_asset_event"])
def test_a_writer_that_is_killed_leaves_the_event_and_what_is_derived_from_it_or_neither(
    settings: Settings, where: str
) -> None:
    with open_instance(settings) as instance:
        before = stored(instance)
    killed = multiprocessing.get_context("spawn").Process(target=be_killed_between, args=(settings, where))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    with open_instance(settings) as instance:
        assert stored(instance) == before
        instance.report_runless_asset_event(dg.AssetMaterialization("energy", partition="a"))  # nothing is locked
        assert instance.get_asset_records([dg.AssetKey("energy")])[0].asset_entry.last_materialization is not None


def fail_on_checks(settings: Settings) -> None:
    with open_instance(settings) as instance:
        storage: Any = instance.event_log_storage
        storage.store_asset_check_event = lambda *_args: os.kill(os.getpid(), signal.SIGKILL)
        instance.report_runless_asset_event(dg.AssetCheckEvaluation(dg.AssetKey("energy"), "fine", passed=True))


def test_a_check_and_its_event_are_stored_together_or_not_at_all(settings: Settings) -> None:
    with open_instance(settings) as instance:
        before = stored(instance)
    killed = multiprocessing.get_context("spawn").Process(target=fail_on_checks, args=(settings,))
    killed.start()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    with open_instance(settings) as instance:
        assert stored(instance) == before
