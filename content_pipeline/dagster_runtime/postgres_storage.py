"""Dagster's records in Postgres: dagster-postgres' own storages, on connections that are kept.

The address of the database is not in `dagster.yaml`, in Dagster's records or in the arguments of a process: it is the
manifest's, and comes from the settings at run time (`configured_storage.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import sqlalchemy as sa

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.atomic_events import AtomicEventLog
from content_pipeline.dagster_runtime.lasting_success import LastingSuccess
from content_pipeline.dagster_runtime.postgres_pool import RecordsPool, pool_of
from content_pipeline.dagster_runtime.records_damage import SCHEMA
from content_pipeline.dagster_runtime.whole_storage import WholeStorage
from content_pipeline.errors import DagsterHomeBroken
from content_pipeline.manifest.postgres_schema import make_schema
from content_pipeline.settings.database_url import DatabaseUrl

MAKING_LOCK = 7283642  # the manifest's is the number before
ASSET_LOCKS = 7283643


class _Pooled:
    """Of each of the three storages. The stock class gets the masked address: what it makes of it is never used."""

    _url: DatabaseUrl
    _pool: RecordsPool
    _engine: sa.Engine

    def use(self, url: DatabaseUrl, statement_timeout_ms: int = 0) -> None:
        self._url = url
        self._pool = pool_of(url, statement_timeout_ms)
        self._engine = self._pool.engine

    def optimize_for_webserver(self, statement_timeout: int, pool_recycle: int, max_overflow: int) -> None:
        """The connections are kept anyway; in the webserver a statement may not take for ever."""
        self.use(self._url, statement_timeout)


class PooledRuns(_Pooled, LastingSuccess, internals.PostgresRunStorage):
    def __init__(self, url: DatabaseUrl) -> None:
        super().__init__(str(url), should_autocreate_tables=False)
        self.use(url)

    def connect(self) -> Any:  # Dagster names a type that contextlib keeps to itself
        return self._pool.connect()


class PooledSchedules(_Pooled, internals.PostgresScheduleStorage):
    def __init__(self, url: DatabaseUrl) -> None:
        super().__init__(str(url), should_autocreate_tables=False)
        self.use(url)

    def connect(self, run_id: str | None = None) -> Any:
        return self._pool.connect()


class PooledEvents(_Pooled, AtomicEventLog, internals.PostgresEventLogStorage):
    def __init__(self, url: DatabaseUrl) -> None:
        self._tables: set[str] = set()
        super().__init__(str(url), should_autocreate_tables=False)
        self.use(url)

    def _new_connection(self) -> AbstractContextManager[sa.Connection]:
        return self._pool.connect()

    @contextmanager
    def _begin(self, asset_keys: Sequence[str]) -> Iterator[sa.Connection]:
        """Postgres gives out numbers before it commits: who stores an event of an asset waits for those before."""
        lock = sa.text(f"SELECT pg_advisory_xact_lock({ASSET_LOCKS}, hashtext(:key))")
        with self._pool.begin() as connection:
            for key in asset_keys:
                connection.execute(lock, {"key": key})
            yield connection

    def has_table(self, table_name: str) -> bool:
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables


class PostgresRecords(WholeStorage):
    """The three storages, with their tables made if need be. Every process opens its own."""

    def __init__(self, url: DatabaseUrl, inst_data: internals.ConfigurableClassData | None = None) -> None:
        runs, events, schedules = PooledRuns(url), PooledEvents(url), PooledSchedules(url)
        pool = pool_of(url)
        if not pool.is_made:
            _make(pool, runs, events, schedules)
        super().__init__(runs, events, schedules, inst_data)


def _make(pool: RecordsPool, runs: PooledRuns, events: PooledEvents, schedules: PooledSchedules) -> None:
    """One process does it while the others wait. The revision comes last, and says that all is there."""
    with pool.connect() as connection:
        if not _is_stamped(connection):
            connection.execute(sa.text(f"SELECT pg_advisory_lock({MAKING_LOCK})"))
            try:
                if not _is_stamped(connection):
                    make_schema(connection, SCHEMA)
                    internals.make_all_tables(connection)
                    for part in (runs, schedules):
                        part.migrate()
                        part.optimize()
                    events.reindex_events()
                    events.reindex_assets()
                    internals.stamp_postgres_tables(connection)
            finally:
                connection.execute(sa.text(f"SELECT pg_advisory_unlock({MAKING_LOCK})"))
    pool.is_made = True


def has_records(url: DatabaseUrl) -> bool:
    """Whether Dagster has records there. Only looks."""
    with pool_of(url).connect() as connection:
        return _is_stamped(connection)


def examine_postgres(url: DatabaseUrl) -> str:
    """What there is to say of the records in Postgres; raises what is wrong with them. Only looks."""
    place = f"records in {url}, schema {SCHEMA}"
    with pool_of(url).connect() as connection:
        if not _is_stamped(connection):
            return f"no {place} yet; `content-ai process` makes them"
        missing = sorted(internals.all_tables() - set(sa.inspect(connection).get_table_names()))
        if missing:
            raise DagsterHomeBroken(f"Dagster's {place} cannot be used: {', '.join(missing)} missing")
    return place


def _is_stamped(connection: sa.Connection) -> bool:
    if not sa.inspect(connection).has_table("alembic_version"):
        return False
    return connection.execute(sa.text("SELECT 1 FROM alembic_version")).first() is not None
