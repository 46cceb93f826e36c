"""Canaries: one for each private call into Dagster, to say which one an upgrade broke."""

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.settings import load

VIDEOS = dg.DynamicPartitionsDefinition(name="videos")


@dg.asset(partitions_def=VIDEOS)
def noop(context: dg.AssetExecutionContext) -> None:
    context.log.info("nothing to do")


@dg.asset(partitions_def=VIDEOS)
def failing() -> None:
    raise ValueError("on purpose")


def job_of(asset: dg.AssetsDefinition) -> dg.JobDefinition:
    return dg.Definitions(
        assets=[asset], jobs=[dg.define_asset_job("process_video", [asset], executor_def=dg.in_process_executor)]
    ).resolve_job_def("process_video")


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    instance = open_instance(load(flags={"state_dir": tmp_path}, env={}).settings)
    instance.add_dynamic_partitions("videos", ["a"])
    return instance


def test_a_run_can_be_created_with_the_origin_that_the_ui_knows(instance: dg.DagsterInstance) -> None:
    run = internals.create_run(instance, job_of(noop), "a", {"x": "y"})
    assert run.status is dg.DagsterRunStatus.NOT_STARTED
    assert run.tags["dagster/partition"] == "a"
    assert run.remote_job_origin.location_name == "content_pipeline"
    assert run.job_code_origin.repository_origin.code_pointer.module == "content_pipeline.definitions"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("asset", "status"), [(noop, dg.DagsterRunStatus.SUCCESS), (failing, dg.DagsterRunStatus.FAILURE)], ids=str
)
def test_a_created_run_can_be_executed_here(instance: dg.DagsterInstance, asset: Any, status: Any) -> None:
    job = job_of(asset)
    run = internals.create_run(instance, job, "a", {})
    internals.execute(instance, job, run, lambda: None)
    assert instance.get_run_by_id(run.run_id).status is status


def test_a_dead_worker_can_be_reported(instance: dg.DagsterInstance) -> None:
    run = internals.create_run(instance, job_of(noop), "a", {})
    internals.report_worker_died(instance, run, "it was killed")
    assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.FAILURE


def test_the_latest_materialization_of_each_partition_is_found(instance: dg.DagsterInstance) -> None:
    for key in ("a", "a", "b"):
        instance.report_runless_asset_event(dg.AssetMaterialization("noop", partition=key))
    found = internals.latest_materializations(instance, "noop")
    assert internals.latest_materializations(instance, "noop", ["b"]) == {"b": found["b"]}
    records = instance.fetch_materializations(dg.AssetKey("noop"), limit=2).records
    assert found == {record.partition_key: record.storage_id for record in records}


def test_all_partitions_can_be_forgotten_at_once(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("videos", ["b"])
    instance.add_dynamic_partitions("others", ["a"])
    assert internals.forget_partitions(instance, "videos") == 2
    assert instance.get_dynamic_partitions("videos") == []
    assert instance.get_dynamic_partitions("others") == ["a"]


def test_every_private_import_is_in_one_file() -> None:
    package = Path(internals.__file__).parents[1]
    private = re.compile(r"^\s*(from|import) dagster\._", re.MULTILINE)
    users = [path.name for path in package.rglob("*.py") if private.search(path.read_text())]
    assert users == ["private_api.py"]
