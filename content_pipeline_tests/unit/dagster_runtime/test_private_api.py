"""Canaries: one for each private name of Dagster that is used, to say which one an upgrade broke."""

import ast
import os
import re
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import pytest
import yaml
from dagster._cli.utils import get_possibly_temporary_instance_for_cli

from content_pipeline.dagster_runtime import atomic_events, backfill_records, postgres_storage, storage
from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.dagster_yaml import shipped
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import QUEUE_TAG
from content_pipeline.dagster_runtime.run_logs import RunLogs
from content_pipeline.execution.reporter import NullReporter
from content_pipeline.execution.run_context import RunContext, executing
from content_pipeline.launchers.local.run_launcher import WarmRunLauncher
from content_pipeline.settings import load
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.unit.dagster_runtime.recording_launcher import RecordingLauncher

Test = TypeVar("Test", bound=Callable[..., None])

VIDEOS = dg.DynamicPartitionsDefinition(name="videos")
PRIVATE = re.compile(r"\bdagster\._[a-z]\w*")
CHECKOUT = Path(internals.__file__).parents[2]

_with_canary: set[str] = set()


def canary(*names: str) -> Callable[[Test], Test]:
    """The test would notice if one of these names were gone or behaved in another way."""
    _with_canary.update(names)
    return lambda test: test


@dg.asset(partitions_def=VIDEOS)
def noop(context: dg.AssetExecutionContext) -> None:
    context.log.info("nothing to do")


@dg.asset(partitions_def=VIDEOS)
def failing() -> None:
    raise ValueError("on purpose")


@dg.asset(partitions_def=VIDEOS)
def terminated(context: dg.AssetExecutionContext) -> None:
    context.instance.report_run_canceling(context.run)
    os.kill(os.getpid(), signal.SIGTERM)


@dg.asset(partitions_def=VIDEOS, retry_policy=dg.RetryPolicy(max_retries=1))
def failing_once(context: dg.AssetExecutionContext) -> None:
    if context.retry_number == 0:
        raise ValueError("on purpose")


@dg.asset(partitions_def=VIDEOS, retry_policy=dg.RetryPolicy(max_retries=1, delay=3600))
def failing_for_long() -> None:
    raise ValueError("on purpose")


@dg.asset(partitions_def=VIDEOS, deps=[noop])
def killed_once(context: dg.AssetExecutionContext) -> None:
    mark = Path(context.run.tags["mark"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def job_of(*assets: dg.AssetsDefinition) -> dg.JobDefinition:
    executor = internals.resumable_in_process_executor
    return dg.Definitions(
        assets=assets, jobs=[dg.define_asset_job("process_video", list(assets), executor_def=executor)]
    ).resolve_job_def("process_video")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with open_instance(load(flags={"state_dir": tmp_path}, env={}).settings) as found:
        found.add_dynamic_partitions("videos", ["a"])
        yield found


# --- runs


@canary("ModuleCodePointer", "JobPythonOrigin", "RepositoryPythonOrigin", "DEFAULT_DAGSTER_ENTRY_POINT")
@canary("ManagedGrpcPythonEnvCodeLocationOrigin", "RemoteJobOrigin", "RemoteRepositoryOrigin", "LoadableTargetOrigin")
def test_a_run_can_be_created_with_the_origin_that_the_ui_knows(instance: dg.DagsterInstance) -> None:
    run = internals.create_run(instance, job_of(noop), "a", {"x": "y"})
    assert run.status is dg.DagsterRunStatus.NOT_STARTED
    assert run.tags["dagster/partition"] == "a"
    stored = instance.get_run_by_id(run.run_id)
    assert stored.remote_job_origin.location_name == "content_pipeline"
    assert stored.remote_job_origin.repository_origin.repository_name == "__repository__"
    origin: Any = stored.job_code_origin.repository_origin
    assert origin.code_pointer.module == "content_pipeline.definitions"
    assert origin.entry_point == ["dagster"]
    assert internals.is_of_our_code(stored)


@canary("InMemoryJob", "execute_run_iterator", "capture_interrupts")
@pytest.mark.parametrize(
    ("asset", "status"),
    [
        (noop, dg.DagsterRunStatus.SUCCESS),
        (failing, dg.DagsterRunStatus.FAILURE),
        (terminated, dg.DagsterRunStatus.CANCELED),
    ],
    ids=str,
)
def test_a_created_run_can_be_executed_here(instance: dg.DagsterInstance, asset: Any, status: Any) -> None:
    job = job_of(asset)
    run = internals.create_run(instance, job, "a", {})
    events: list[None] = []
    internals.execute(instance, job, run, lambda: events.append(None))
    assert instance.get_run_by_id(run.run_id).status is status
    assert events


@canary("InProcessExecutor", "inprocess_execution_iterator", "PlanExecutionContextManager", "EngineEventData")
@canary("ExecuteRunWithPlanIterable", "PlanOrchestrationContext", "ExecutionPlan", "ResolvedRunConfig")
def test_a_resumed_run_does_not_do_again_what_it_has_done(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    job = job_of(noop, killed_once)
    run = internals.create_run(instance, job, "a", {"mark": str(tmp_path / "mark")})
    child = os.fork()
    if child == 0:
        try:
            internals.execute(instance, job, run, lambda: None)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert internals.finished_steps(instance, run.run_id) == {"noop"}
    started = instance.get_run_by_id(run.run_id)
    assert started.status is dg.DagsterRunStatus.STARTED
    internals.execute(instance, job, started, lambda: None, resume=True)
    assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.SUCCESS
    steps = [one.step_key for one in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_START)]
    assert sorted(steps) == ["killed_once", "killed_once", "noop"]
    said = [
        one.dagster_event.message for one in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
    ]
    assert any("killed_once left, noop already done" in message for message in said)


@canary("RetryMode")
def test_our_executor_tries_a_step_again_that_has_a_retry_policy(instance: dg.DagsterInstance) -> None:
    job = job_of(failing_once)
    run = internals.create_run(instance, job, "a", {})
    internals.execute(instance, job, run, lambda: None)
    assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.SUCCESS
    assert len(instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_RESTARTED)) == 1


class TerminatingReporter(NullReporter):
    """Terminates the run as soon as it waits, as a person would from the UI."""

    def __init__(self, terminate: Callable[[], None]) -> None:
        self._terminate: Callable[[], None] | None = terminate

    def alive(self) -> None:
        terminate, self._terminate = self._terminate, None
        if terminate is not None:
            terminate()


@canary("PlanExecutionContext", "ActiveExecution", "pop_captured_interrupt")
@pytest.mark.parametrize("when", ["as it fails", "while it waits"])
def test_a_run_that_is_terminated_between_two_tries_of_a_step_ends(instance: dg.DagsterInstance, when: str) -> None:
    job = job_of(failing_for_long)
    run = internals.create_run(instance, job, "a", {})

    def terminate() -> None:
        instance.report_run_canceling(instance.get_run_by_id(run.run_id))
        os.kill(os.getpid(), signal.SIGTERM)

    def noticed() -> None:
        ups = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_UP_FOR_RETRY)
        if when == "as it fails" and ups and instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.STARTED:
            terminate()

    with executing(RunContext(reporter=TerminatingReporter(terminate))):
        internals.execute(instance, job, run, noticed)
    assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.CANCELED
    assert instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_RESTARTED) == []


@canary("JobFailureData", "RunFailureReason")
def test_a_dead_worker_can_be_reported(instance: dg.DagsterInstance) -> None:
    run = internals.create_run(instance, job_of(noop), "a", {})
    internals.report_worker_died(instance, run, "it was killed")
    failed = instance.get_run_by_id(run.run_id)
    assert failed.status is dg.DagsterRunStatus.FAILURE
    assert failed.tags["dagster/failure_reason"] == "UNEXPECTED_TERMINATION"


# --- the launcher


@canary("RunLauncher", "LaunchRunContext", "ResumeRunContext", "ConfigurableClass", "ConfigurableClassData")
def test_dagster_asks_the_launcher_that_dagster_yaml_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = yaml.safe_load(shipped("dagster.yaml").read_text())
    config["run_launcher"] |= {"module": RecordingLauncher.__module__, "class": "RecordingLauncher"}
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.setattr(RecordingLauncher, "asked", [])
    with open_instance(load(flags={"state_dir": tmp_path}, env={}).settings) as instance:
        instance.add_dynamic_partitions("videos", ["a"])
        run = internals.create_run(instance, job_of(noop), "a", {})
        instance.launch_run(run.run_id, None)  # as `process` does, without a workspace
        instance.resume_run(run.run_id, None, 1)
    launched, resumed = RecordingLauncher.asked
    assert isinstance(launched, internals.LaunchRunContext) and isinstance(resumed, internals.ResumeRunContext)
    assert launched.dagster_run.run_id == resumed.dagster_run.run_id == run.run_id


@canary("CheckRunHealthResult", "WorkerStatus")
def test_our_launcher_tells_the_health_of_a_run_in_the_words_of_dagster(instance: dg.DagsterInstance) -> None:
    assert isinstance(instance.run_launcher, WarmRunLauncher)
    run = internals.create_run(instance, job_of(noop), "a", {QUEUE_TAG: instance.run_launcher.launch_queue.id})
    health = instance.run_launcher.check_run_worker_health(run)
    assert (health.status, health.msg) == (internals.WorkerStatus.FAILED, "no process executes this run")
    assert {"RUNNING", "FAILED", "SUCCESS"} <= {status.name for status in internals.WorkerStatus}
    for name in ("supports_resume_run", "resume_run", "supports_check_run_worker_health", "check_run_worker_health"):
        assert hasattr(internals.RunLauncher, name), "what our launcher overrides is asked for by nobody"


# --- records


@canary("InstanceRef", "DagsterStorage", "RunStorage", "EventLogStorage", "ScheduleStorage", "SqlEventLogStorage")
@canary("SqliteRunStorage", "SqliteScheduleStorage", "ConsolidatedSqliteEventLogStorage", "create_db_conn_string")
@canary("consolidated_sqlite_event_log", "AlembicVersion", "check_alembic_revision", "get_alembic_config")
@canary("stamp_alembic_rev", "SqlEventLogStorageMetadata")
def test_our_storages_are_those_of_dagster_at_its_newest_revision(instance: dg.DagsterInstance) -> None:
    home = Path(instance.root_directory)
    whole = internals.instance_ref(home, 0).storage_data
    assert whole.class_name == "ConfiguredRecords"
    assert issubclass(storage.SqliteRecords, internals.DagsterStorage)
    for part, kind, stock in (
        (instance.run_storage, internals.RunStorage, internals.SqliteRunStorage),
        (instance.schedule_storage, internals.ScheduleStorage, internals.SqliteScheduleStorage),
        (instance.event_log_storage, internals.EventLogStorage, internals.ConsolidatedSqliteEventLogStorage),
    ):
        assert isinstance(part, kind) and isinstance(part, stock)
        revision, head = part.alembic_version()
        assert revision == head is not None
        assert Path(part._conn_string.removeprefix("sqlite:///")).is_relative_to(home)
    assert isinstance(instance.event_log_storage, internals.SqlEventLogStorage)


@pytest.mark.parametrize(
    "ours",
    [
        *(storage.KeptRuns, storage.KeptSchedules, storage.KeptEvents, atomic_events.AtomicEventLog),
        *(postgres_storage.PooledRuns, postgres_storage.PooledSchedules, postgres_storage.PooledEvents),
    ],
)
def test_what_our_storages_override_is_still_there_to_be_overridden(ours: type) -> None:
    """Else Dagster would go by another way, past what we do there."""
    own = {"__init__", "make", "use", "_new_connection", "_begin", "_transaction", "_open", "_connect"}
    stock = [kind for kind in ours.__mro__ if kind.__module__.startswith("dagster")]
    overridden = {
        name
        for kind in ours.__mro__
        if kind not in stock
        for name, value in vars(kind).items()
        if callable(value) and not name.startswith("__") and name not in own
    }
    assert {name for name in overridden if not any(name in vars(kind) for kind in stock)} == set()
    if issubclass(ours, internals.ConsolidatedSqliteEventLogStorage | internals.PostgresEventLogStorage):
        source = {name for kind in stock for name in vars(kind)}
        assert {"_connect", "run_connection", "index_connection", "index_transaction"} <= source


@canary("SqlPollingEventWatcher")
def test_the_events_of_a_run_can_be_watched(instance: dg.DagsterInstance) -> None:
    run = internals.create_run(instance, job_of(noop), "a", {})
    seen: list[str | None] = []
    instance.event_log_storage.watch(run.run_id, None, lambda event, _cursor: seen.append(event.dagster_event.message))
    instance.report_engine_event("watch me", run)
    eventually(lambda: "watch me" in seen, "the watcher was told")


@canary("RunStorageSqlMetadata", "ScheduleStorageSqlMetadata")
def test_the_tables_of_all_storages_are_known() -> None:
    assert {
        "runs",
        "run_tags",
        "instance_info",
        "event_logs",
        "asset_keys",
        "jobs",
        "job_ticks",
    } <= internals.all_tables()


@canary("SqlEventLogStorageTable", "AssetKeyTable", "AssetCheckExecutionsTable")
def test_the_columns_that_hold_whole_events_are_those_that_we_compress(instance: dg.DagsterInstance) -> None:
    instance.report_runless_asset_event(dg.AssetMaterialization("noop", partition="a"))
    instance.report_runless_asset_event(dg.AssetCheckEvaluation(dg.AssetKey("noop"), "fine", passed=True))
    assert {f"{column.table.name}.{column.name}" for column in internals.EVENT_COLUMNS} == {
        "event_logs.event",
        "asset_keys.last_materialization",
        "asset_check_executions.evaluation_event",
    }
    with instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
        for column in internals.EVENT_COLUMNS:
            kept = f"SELECT {column.name} FROM {column.table.name}"
            assert {type(value) for value in connection.exec_driver_sql(kept).scalars()} == {bytes}
    assert internals.runs_with_latest_events(instance) == frozenset([""])


def test_the_latest_materialization_of_each_partition_is_found(instance: dg.DagsterInstance) -> None:
    for key in ("a", "a", "b"):
        instance.report_runless_asset_event(dg.AssetMaterialization("noop", partition=key))
    found = internals.latest_materializations(instance, "noop")
    assert internals.latest_materializations(instance, "noop", ["b"]) == {"b": found["b"]}
    records = instance.fetch_materializations(dg.AssetKey("noop"), limit=2).records
    assert found == {record.partition_key: record.storage_id for record in records}


@canary("DynamicPartitionsTable")
def test_all_partitions_can_be_forgotten_at_once(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("videos", ["b"])
    instance.add_dynamic_partitions("others", ["a"])
    assert internals.forget_partitions(instance, "videos") == 2
    assert instance.get_dynamic_partitions("videos") == []
    assert instance.get_dynamic_partitions("others") == ["a"]


@canary("TMP_DAGSTER_HOME_PREFIX")
def test_a_command_of_dagster_without_a_home_gets_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    with get_possibly_temporary_instance_for_cli() as temporary:
        assert Path(temporary.root_directory).name.startswith(internals.TEMPORARY_HOME_PREFIX)


# --- backfills and logs


@canary("PartitionBackfill", "AssetBackfillData", "AssetGraphSubset", "TimestampWithTimezone")
@canary("BulkActionStatus", "BulkActionsFilter", "make_new_backfill_id")
def test_a_backfill_can_be_recorded_found_and_ended(instance: dg.DagsterInstance) -> None:
    backfill_id = internals.make_new_backfill_id()
    requested, ended = internals.BulkActionStatus.REQUESTED, internals.BulkActionStatus.COMPLETED_SUCCESS
    long_ago = datetime.now(UTC) - timedelta(days=1)
    backfill_records.add_backfill(instance, backfill_id, "title", "why", {"ours": "1"}, ["noop"], VIDEOS, ["a"], 0)
    (found,) = backfill_records.backfills(instance, "ours", [requested], long_ago)
    assert (found.backfill_id, found.keys) == (backfill_id, frozenset("a"))
    backfill_records.end_backfill(instance, backfill_id, ended, VIDEOS, failed=[])
    assert backfill_records.backfills(instance, "ours", [requested], long_ago) == []
    assert instance.get_backfill(backfill_id).status is ended


@canary("ComputeLogManager", "CapturedLogContext", "CapturedLogMetadata", "CapturedLogSubscription", "ComputeIOType")
def test_the_manager_of_logs_has_all_that_dagster_asks_for(instance: dg.DagsterInstance) -> None:
    logs = instance.compute_log_manager
    assert isinstance(logs, RunLogs)
    assert not RunLogs.__abstractmethods__
    with logs.capture_logs(["run", "step"]) as captured:
        assert isinstance(captured, internals.CapturedLogContext)
    assert logs.get_log_data_for_type(["run"], internals.ComputeIOType.STDOUT, 0, None) == (None, 0)
    assert isinstance(logs.get_log_metadata(["run"]), internals.CapturedLogMetadata)
    assert isinstance(logs.subscribe(["run"]), internals.CapturedLogSubscription)


# --- the list


def imported() -> set[str]:
    """The private names that are imported, each in the one file that may."""
    tree = ast.parse(Path(internals.__file__).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in found if PRIVATE.match(str(node.module)) for alias in node.names}


def test_every_private_name_has_a_canary_and_a_reason() -> None:
    assert imported() == _with_canary
    assert imported() == set(re.findall(r"`(\w+)`", str(internals.__doc__)))


def test_private_names_of_dagster_are_used_in_one_file_only() -> None:
    """Imports, modules that are started with `-m`, and modules that YAML names."""
    files = [*(CHECKOUT / "content_pipeline").rglob("*.py"), *CHECKOUT.glob("*.yaml"), CHECKOUT / "pyproject.toml"]
    files += [path for path in (CHECKOUT / ".ci").glob("*") if path.is_file()]
    users = {path.name: PRIVATE.findall(path.read_text()) for path in files if PRIVATE.search(path.read_text())}
    assert list(users) == ["private_api.py"]


def test_modules_that_yaml_names_can_be_loaded(instance: dg.DagsterInstance) -> None:
    assert type(instance.compute_log_manager).__name__ == "RunLogs"
    assert type(instance.run_coordinator).__name__ == "QueuedRunCoordinator"
