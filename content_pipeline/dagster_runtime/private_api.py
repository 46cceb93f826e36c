"""Every private call into Dagster, in one place. Tried on dagster 1.13.27 and dagster-postgres 0.29.27.

A canary test stands behind each name: when an upgrade breaks one, it says which. Dagster has no public name for these:

A run that the UI shows under the code location, and can execute again, says where its code is:
`ModuleCodePointer`, `JobPythonOrigin`, `RepositoryPythonOrigin`, `DEFAULT_DAGSTER_ENTRY_POINT`,
`ManagedGrpcPythonEnvCodeLocationOrigin`, `RemoteJobOrigin`, `RemoteRepositoryOrigin`, `LoadableTargetOrigin`.

A run that was created is executed in this process, where everything heavy is loaded, and SIGTERM ends it as cancelled:
`InMemoryJob`, `execute_run_iterator`, `capture_interrupts`.

A resumed run does not do again what it has done; stock executors repeat every step:
`InProcessExecutor`, `inprocess_execution_iterator`, `PlanExecutionContextManager`, `ExecuteRunWithPlanIterable`,
`PlanOrchestrationContext`, `ExecutionPlan`, `ResolvedRunConfig`, `RetryMode`, `EngineEventData`.

A run that is terminated ends, also while a step waits for its next try; under a stock executor it is retried:
`PlanExecutionContext`, `ActiveExecution`, `pop_captured_interrupt`.

A run whose worker died is reported as such, so that Dagster may retry it: `JobFailureData`, `RunFailureReason`.

A run launcher is made by subclassing; there is no other way:
`RunLauncher`, `LaunchRunContext`, `ResumeRunContext`, `CheckRunHealthResult`, `WorkerStatus`.

`dagster.yaml` names our launcher and storage, and is read once: `ConfigurableClass`, `ConfigurableClassData`,
`InstanceRef`.

A command of Dagster without DAGSTER_HOME calls a temporary folder its home, where nothing that lasts may be kept:
`TMP_DAGSTER_HOME_PREFIX`.

Storages on connections that are kept are made by subclassing the stock ones:
`DagsterStorage`, `RunStorage`, `EventLogStorage`, `ScheduleStorage`, `SqlEventLogStorage`, `SqliteRunStorage`,
`SqliteScheduleStorage`, `ConsolidatedSqliteEventLogStorage`, `SqlPollingEventWatcher`, `create_db_conn_string`.

Their tables are made by one process, and the revision is written last: `SqlEventLogStorageMetadata`,
`RunStorageSqlMetadata`, `ScheduleStorageSqlMetadata`, `consolidated_sqlite_event_log`, `AlembicVersion`,
`check_alembic_revision`, `get_alembic_config`, `stamp_alembic_rev`.

Jobs that bring videos up to date are shown as a backfill whose runs our own sensor asks for; publicly one can only have
Dagster ask for them: `PartitionBackfill`, `AssetBackfillData`, `AssetGraphSubset`, `TimestampWithTimezone`,
`BulkActionStatus`, `BulkActionsFilter`, `make_new_backfill_id`.

The UI's log tabs show the file that a worker writes; Dagster's own capture starts processes:
`ComputeLogManager`, `CapturedLogContext`, `CapturedLogMetadata`, `CapturedLogSubscription`, `ComputeIOType`.

Events are stored compressed, the runs that hold the latest of anything are found in one statement, and 10,000
partitions are forgotten in another: `SqlEventLogStorageTable`, `AssetKeyTable`, `AssetCheckExecutionsTable`,
`DynamicPartitionsTable`.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import dagster as dg
import sqlalchemy as sa
from dagster._cli.utils import TMP_DAGSTER_HOME_PREFIX
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.assets.graph.asset_graph_subset import AssetGraphSubset as AssetGraphSubset
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.definitions.timestamp import TimestampWithTimezone as TimestampWithTimezone
from dagster._core.events import EngineEventData, JobFailureData, RunFailureReason
from dagster._core.execution.api import ExecuteRunWithPlanIterable, execute_run_iterator
from dagster._core.execution.asset_backfill import AssetBackfillData as AssetBackfillData
from dagster._core.execution.backfill import BulkActionsFilter as BulkActionsFilter
from dagster._core.execution.backfill import BulkActionStatus as BulkActionStatus
from dagster._core.execution.backfill import PartitionBackfill as PartitionBackfill
from dagster._core.execution.context.system import PlanExecutionContext, PlanOrchestrationContext
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.plan.active import ActiveExecution
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.in_process import InProcessExecutor, inprocess_execution_iterator
from dagster._core.instance.ref import InstanceRef as InstanceRef
from dagster._core.launcher import CheckRunHealthResult as CheckRunHealthResult
from dagster._core.launcher import LaunchRunContext as LaunchRunContext
from dagster._core.launcher import ResumeRunContext as ResumeRunContext
from dagster._core.launcher import RunLauncher as RunLauncher
from dagster._core.launcher import WorkerStatus as WorkerStatus
from dagster._core.origin import DEFAULT_DAGSTER_ENTRY_POINT, JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.base_storage import DagsterStorage as DagsterStorage
from dagster._core.storage.compute_log_manager import CapturedLogContext as CapturedLogContext
from dagster._core.storage.compute_log_manager import CapturedLogMetadata as CapturedLogMetadata
from dagster._core.storage.compute_log_manager import CapturedLogSubscription as CapturedLogSubscription
from dagster._core.storage.compute_log_manager import ComputeIOType as ComputeIOType
from dagster._core.storage.compute_log_manager import ComputeLogManager as ComputeLogManager
from dagster._core.storage.event_log.base import EventLogStorage as EventLogStorage
from dagster._core.storage.event_log.polling_event_watcher import SqlPollingEventWatcher as SqlPollingEventWatcher
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetKeyTable,
    DynamicPartitionsTable,
    SqlEventLogStorageMetadata,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage as SqlEventLogStorage
from dagster._core.storage.event_log.sqlite import consolidated_sqlite_event_log
from dagster._core.storage.event_log.sqlite.consolidated_sqlite_event_log import (
    ConsolidatedSqliteEventLogStorage as ConsolidatedSqliteEventLogStorage,
)
from dagster._core.storage.runs.base import RunStorage as RunStorage
from dagster._core.storage.runs.schema import RunStorageSqlMetadata as RunStorageSqlMetadata
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage as SqliteRunStorage
from dagster._core.storage.schedules.base import ScheduleStorage as ScheduleStorage
from dagster._core.storage.schedules.schema import ScheduleStorageSqlMetadata
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import (
    SqliteScheduleStorage as SqliteScheduleStorage,
)
from dagster._core.storage.sql import AlembicVersion as AlembicVersion
from dagster._core.storage.sql import check_alembic_revision, get_alembic_config, stamp_alembic_rev
from dagster._core.storage.sqlite import create_db_conn_string as create_db_conn_string
from dagster._core.system_config.objects import ResolvedRunConfig
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.utils import make_new_backfill_id as make_new_backfill_id
from dagster._serdes import ConfigurableClass as ConfigurableClass
from dagster._serdes import ConfigurableClassData as ConfigurableClassData
from dagster._utils.interrupts import capture_interrupts, pop_captured_interrupt
from dagster_postgres import PostgresEventLogStorage as PostgresEventLogStorage
from dagster_postgres import PostgresRunStorage as PostgresRunStorage
from dagster_postgres import PostgresScheduleStorage as PostgresScheduleStorage
from dagster_postgres.event_log import event_log as postgres_event_log
from dagster_postgres.utils import pg_alembic_config

from content_pipeline.dagster_runtime.names import PARTITION_TAG
from content_pipeline.execution.run_context import current_run

TEMPORARY_HOME_PREFIX = TMP_DAGSTER_HOME_PREFIX  # of the folder that stands in for a home that is not set
CODE_LOCATION = "content_pipeline"
MODULE = "content_pipeline.definitions"
ATTRIBUTE = "defs"
REPOSITORY = "__repository__"
LOOK_EVERY_S = 0.1

# Where whole events are kept. Dagster compares none of them in SQL.
EVENT_COLUMNS = (
    SqlEventLogStorageTable.c.event,
    AssetKeyTable.c.last_materialization,
    AssetCheckExecutionsTable.c.evaluation_event,
)


@cache
def instance_ref(home: Path, _changed_ns: int) -> InstanceRef:
    """What `dagster.yaml` says, read once for each time it changes."""
    return InstanceRef.from_dir(str(home))


def create_run(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    partition_key: str,
    tags: Mapping[str, str],
    run_config: Mapping[str, Any] | None = None,
) -> dg.DagsterRun:
    """A run that the UI shows under the code location and can execute again."""
    return instance.create_run_for_job(
        job,
        run_config=run_config,
        tags={**tags, PARTITION_TAG: partition_key},
        remote_job_origin=_remote_origin(job.name),
        job_code_origin=_python_origin(job.name),
        status=dg.DagsterRunStatus.NOT_STARTED,
        asset_selection=job.asset_selection,
    )


def execute(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    run: dg.DagsterRun,
    alive: Callable[[], None],
    resume: bool = False,
) -> None:
    """Execute a created run in this process; its outcome is in the event log. SIGTERM ends it as cancelled.

    `alive` is called for every event: a step that waits for a place in its pool has one every five minutes.
    """
    with capture_interrupts():
        for _event in execute_run_iterator(InMemoryJob(job), run, instance, resume_from_failure=resume):
            alive()


class ResumableInProcessExecutor(InProcessExecutor):
    """In one process, like Dagster's own; but a resumed run goes on where it stopped, and a terminated one ends.

    What has ended is not done again, and retries that a step has used up stay used up.
    """

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[dg.DagsterEvent]:
        steps = execution_plan.step_keys_to_execute
        plan, what = execution_plan, f"Executing steps in process {os.getpid()}."
        if plan_context.resume_from_failure:
            finished = finished_steps(plan_context.instance, plan_context.run_id)
            steps = [key for key in steps if key not in finished]
            plan = _only(execution_plan, steps, plan_context)
            what = (
                f"Continuing in process {os.getpid()}: {', '.join(steps) or 'nothing'} left, "
                f"{', '.join(sorted(finished)) or 'nothing'} already done."
            )
        yield dg.DagsterEvent.engine_event(plan_context, what, EngineEventData.in_process(os.getpid(), steps))
        if steps:
            yield from self._execute(plan_context, _InterruptiblePlan(*plan))

    def _execute(self, context: PlanOrchestrationContext, plan: ExecutionPlan) -> Iterator[dg.DagsterEvent]:
        manager = PlanExecutionContextManager(
            job=context.job,
            retry_mode=context.retry_mode,
            execution_plan=plan,
            run_config=context.run_config,
            dagster_run=context.dagster_run,
            instance=context.instance,
            raise_on_error=context.raise_on_error,
            output_capture=context.output_capture,
            step_dependency_config=self.step_dependency_config,
        )
        yield from ExecuteRunWithPlanIterable(plan, _until_terminated, manager)


def _until_terminated(job_context: PlanExecutionContext, execution_plan: ExecutionPlan) -> Iterator[dg.DagsterEvent]:
    """Dagster's own loop, without its mistake: to a retry policy an interruption is an error like any other, so that
    a run that a person terminates would be retried (dagster issue 15026). Drop this when that is closed."""
    for event in inprocess_execution_iterator(job_context, execution_plan):
        yield event
        if event.is_step_up_for_retry and (_was_interrupted(event) or _is_canceling(job_context)):
            raise dg.DagsterExecutionInterruptedError(f"terminated in {event.step_key}")


def _was_interrupted(event: dg.DagsterEvent) -> bool:
    error = event.step_retry_data.error
    cause = None if error is None else error.cause
    return cause is not None and cause.cls_name in (dg.DagsterExecutionInterruptedError.__name__, "KeyboardInterrupt")


def _is_canceling(job_context: PlanExecutionContext) -> bool:
    run = job_context.instance.get_run_by_id(job_context.run_id)
    return run is not None and run.status is dg.DagsterRunStatus.CANCELING


class _InterruptiblePlan(ExecutionPlan):
    def start(self, *args: Any, **kwargs: Any) -> ActiveExecution:
        return _InterruptibleExecution(self, *args, **kwargs)


class _InterruptibleExecution(ActiveExecution):
    """Waits for the next try of a step, or for a place in its pool, without sleeping through a signal or in silence."""

    def sleep_til_ready(self) -> None:
        alive = current_run().reporter.alive
        until_s = time.monotonic() + self.sleep_interval()  # type: ignore[no-untyped-call]
        while (left_s := until_s - time.monotonic()) > 0:
            if pop_captured_interrupt():
                raise dg.DagsterExecutionInterruptedError("terminated while it waited")
            alive()
            time.sleep(min(left_s, LOOK_EVERY_S))


def _only(plan: ExecutionPlan, steps: list[str], context: PlanOrchestrationContext) -> ExecutionPlan:
    """The rest of a plan, which knows how often its steps were retried before."""
    job = context.job.get_definition()
    rest = plan.build_subset_plan(steps, job, ResolvedRunConfig.build(job, context.run_config))
    used = retries_of_steps(context.instance, context.run_id)
    return rest._replace(known_state=rest.known_state._replace(previous_retry_attempts=used))


def finished_steps(instance: dg.DagsterInstance, run_id: str) -> set[str]:
    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
    return {event.step_key for event in events if event.step_key is not None}


def retries_of_steps(instance: dg.DagsterInstance, run_id: str) -> dict[str, int]:
    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_UP_FOR_RETRY)
    return dict(Counter(event.step_key for event in events if event.step_key is not None))


@dg.executor(name="resumable_in_process")
def resumable_in_process_executor(_context: dg.InitExecutorContext) -> InProcessExecutor:
    return ResumableInProcessExecutor(retries=RetryMode.ENABLED)


def end_as_cancelled(instance: dg.DagsterInstance, run_id: str, why: str) -> NoReturn:
    """In a step: end this run as if a person had terminated it."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status is not dg.DagsterRunStatus.CANCELING:
        instance.report_run_canceling(run, why)
    raise dg.DagsterExecutionInterruptedError(why)


def planned_assets(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """The assets that a run is asked for, also where it is not one of our jobs: by its selection, else by its plan."""
    if run.asset_selection:
        return sorted(key.to_user_string() for key in run.asset_selection)
    if run.execution_plan_snapshot_id is None:
        return []
    return sorted(instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id).step_keys_to_execute)


def report_worker_died(instance: dg.DagsterInstance, run: dg.DagsterRun, why: str) -> None:
    instance.report_run_failed(
        run, why, JobFailureData(error=None, failure_reason=RunFailureReason.UNEXPECTED_TERMINATION)
    )


def latest_materializations(
    instance: dg.DagsterInstance, asset: str, partitions: Collection[str] | None = None
) -> Mapping[str, int]:
    """Partition -> number of its latest materialization; of all of them in one statement."""
    wanted = None if partitions is None else set(partitions)
    return instance.get_latest_storage_id_by_partition(
        dg.AssetKey(asset), dg.DagsterEventType.ASSET_MATERIALIZATION, wanted
    )


def runs_with_latest_events(instance: dg.DagsterInstance) -> frozenset[str] | None:
    """The runs that hold the latest materialization, observation or check of any asset and partition.

    None where the records are not in SQL. By the order in which events were stored, which is what Dagster goes by.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return None
    kinds = [kind.value for kind in (dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION)]
    events, checks = SqlEventLogStorageTable.c, AssetCheckExecutionsTable.c
    per_asset = events.dagster_event_type, events.asset_key, events.partition
    made = sa.select(sa.func.max(events.id)).where(events.dagster_event_type.in_(kinds)).group_by(*per_asset)
    per_check = checks.asset_key, checks.check_name, checks.partition
    checked = sa.select(sa.func.max(checks.id)).group_by(*per_check)
    evaluated = checked.where(checks.evaluation_event_storage_id.is_not(None))
    with storage.index_connection() as connection:
        found = [
            *connection.execute(sa.select(events.run_id).where(events.id.in_(made))).scalars(),
            *connection.execute(sa.select(checks.run_id).where(checks.id.in_(checked))).scalars(),
            *connection.execute(sa.select(checks.run_id).where(checks.id.in_(evaluated))).scalars(),
        ]
    return frozenset(found)


def delete_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """With its events and tags, as Dagster does it; and with what it leaves of the run's checks."""
    instance.delete_run(run_id)
    storage = instance.event_log_storage
    if isinstance(storage, SqlEventLogStorage):
        with storage.index_connection() as connection:
            table = AssetCheckExecutionsTable
            connection.execute(table.delete().where(table.c.run_id == run_id))


def forget_ticks(instance: dg.DagsterInstance, before: datetime) -> None:
    """What our sensors and schedules said at each look; other projects may keep theirs in the same records."""
    for state in instance.all_instigator_state():
        if state.origin.repository_origin.code_location_origin.location_name == CODE_LOCATION:
            instance.purge_ticks(state.instigator_origin_id, state.selector_id, before.timestamp())


def is_of_our_code(run: dg.DagsterRun) -> bool:
    """Other projects may keep their runs in the same records."""
    origin = run.remote_job_origin
    return origin is not None and origin.repository_origin.code_location_origin.location_name == CODE_LOCATION


def forget_partitions(instance: dg.DagsterInstance, name: str) -> int:
    """All at once: the public way takes a transaction for each, a minute or more for 10,000."""
    storage = instance.event_log_storage
    keys = instance.get_dynamic_partitions(name)
    if isinstance(storage, SqlEventLogStorage):
        with storage.index_connection() as connection:
            table = DynamicPartitionsTable
            connection.execute(table.delete().where(table.c.partitions_def_name == name))
    else:
        for key in keys:
            instance.delete_dynamic_partition(name, key)
    return len(keys)


def insert_partitions(connection: sa.Connection, name: str, keys: Collection[str]) -> None:
    """Into SQLite; those that are there already stay as they are."""
    if keys:
        rows = [{"partitions_def_name": name, "partition": key} for key in keys]
        connection.execute(DynamicPartitionsTable.insert().prefix_with("OR IGNORE"), rows)


def _remote_origin(job_name: str) -> RemoteJobOrigin:
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE, working_directory=str(Path.cwd()))
    location = ManagedGrpcPythonEnvCodeLocationOrigin(loadable_target_origin=target, location_name=CODE_LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), job_name)


def _python_origin(job_name: str) -> JobPythonOrigin:
    repository = RepositoryPythonOrigin(
        executable_path=sys.executable,
        code_pointer=ModuleCodePointer(MODULE, ATTRIBUTE, str(Path.cwd())),
        entry_point=DEFAULT_DAGSTER_ENTRY_POINT,
    )
    return JobPythonOrigin(job_name, repository)


def make_event_tables(connection: Any) -> None:
    SqlEventLogStorageMetadata.create_all(connection)


def stamp_event_tables(connection: Any) -> None:
    stamp_alembic_rev(get_alembic_config(consolidated_sqlite_event_log.__file__), connection)


def event_log_revision(connection: Any) -> AlembicVersion:
    return check_alembic_revision(get_alembic_config(consolidated_sqlite_event_log.__file__), connection)


_METADATA = RunStorageSqlMetadata, SqlEventLogStorageMetadata, ScheduleStorageSqlMetadata


def all_tables() -> set[str]:
    """Of a database that holds runs, events and schedules together."""
    return {name for metadata in _METADATA for name in metadata.tables}


def tables_of_each() -> list[list[sa.Table]]:
    """Of the databases of runs, of events and of schedules; who is referred to comes first."""
    return [list(metadata.sorted_tables) for metadata in _METADATA]


def make_all_tables(connection: sa.Connection) -> None:
    for metadata in _METADATA:
        metadata.create_all(connection)


def stamp_postgres_tables(connection: sa.Connection) -> None:
    stamp_alembic_rev(pg_alembic_config(postgres_event_log.__file__), connection)
