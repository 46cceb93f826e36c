"""Connections to Dagster's records in Postgres: kept, one pool for all storages of a process, and none crosses a fork.

Stock dagster-postgres opens a connection, and the server starts a process, for every statement outside the webserver.
The records have a schema of their own, so that the manifest and Dagster can share one database.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg2  # type: ignore[import-untyped]
import sqlalchemy as sa

from content_pipeline.dagster_runtime.records_damage import SCHEMA, name_postgres_failure
from content_pipeline.errors import DagsterHomeBroken, DatabaseAway, DatabaseReadOnly
from content_pipeline.manifest.database import parsed_url
from content_pipeline.manifest.database_errors import first_line
from content_pipeline.manifest.database_retry import call_with_retries
from content_pipeline.manifest.postgres import postgres_engine
from content_pipeline.settings.database_url import DatabaseUrl

KEPT, AT_MOST = 2, 20  # connections of one process: the UI asks from many threads
RETRY_S = 5.0  # as long as stock Dagster waits for a server that cannot be connected to


class RecordsPool:
    """The connections of this process to one database. Statements are committed one by one, as in stock Dagster."""

    def __init__(self, url: DatabaseUrl, statement_timeout_ms: int = 0) -> None:
        self.place = str(url)
        self.is_made = False  # whether this process has seen that all tables are there
        self.engine = postgres_engine(
            parsed_url(url),
            isolation_level="AUTOCOMMIT",
            pool_size=KEPT,
            max_overflow=AT_MOST - KEPT,
            pool_use_lifo=True,
        )
        # First of all: SQLAlchemy asks a new connection which schema it is in.
        sa.event.listen(self.engine, "connect", partial(_set_up, statement_timeout_ms), insert=True)
        sa.event.listen(self.engine, "checkout", _expect_open)

    @contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """A connection whose failures have the names that workers act on."""
        with self._named_failures(), call_with_retries(self._connected, RETRY_S, self.place) as connection:
            yield connection

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """The same, with a transaction."""
        with (
            self._named_failures(),
            call_with_retries(self._transacting, RETRY_S, self.place) as connection,
            connection.begin(),
        ):
            yield connection

    def _connected(self) -> sa.Connection:
        with self._named_failures():
            return self.engine.connect()

    def _transacting(self) -> sa.Connection:
        """Setting the isolation asks the server, past what SQLAlchemy watches: it may be going down at this moment."""
        connection = self._connected()
        try:
            return connection.execution_options(isolation_level="READ COMMITTED")
        except psycopg2.Error as error:
            connection.invalidate(error)
            connection.close()
            raise DatabaseAway(f"Dagster's records in {self.place} do not answer: {first_line(error)}") from error

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            named = name_postgres_failure(error, self.place)
            if named is None:
                raise
            if isinstance(named, DagsterHomeBroken):
                self.is_made = False  # looked at again when it is next opened
            if isinstance(named, DatabaseReadOnly):
                self.engine.dispose()  # connections to a server that was demoted stay read-only
            raise named from error


_pools: dict[tuple[DatabaseUrl, int], RecordsPool] = {}
_adding = threading.Lock()
_of_the_parent: list[sa.Pool] = []


def pool_of(url: DatabaseUrl, statement_timeout_ms: int = 0) -> RecordsPool:
    """The pool of this process for a database; the SQL that it has compiled outlives a fork, its connections do not."""
    with _adding:
        key = url, statement_timeout_ms
        if key not in _pools:
            _pools[key] = RecordsPool(url, statement_timeout_ms)
        return _pools[key]


def _set_up(statement_timeout_ms: int, connection: Any, record: Any) -> None:
    with connection, connection.cursor() as cursor:
        cursor.execute(f"SET search_path TO {SCHEMA}")
        cursor.execute(f"SET statement_timeout TO {statement_timeout_ms:d}") if statement_timeout_ms else None
    record.info["new"] = True


def _expect_open(connection: Any, record: Any, _proxy: Any) -> None:
    """Asks no server: a kept connection that has something to read was told goodbye. Another is opened instead."""
    if record.info.pop("new", False):
        return
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    if connection.closed or waiting.poll(0):
        raise sa.exc.DisconnectionError("the server has closed this connection")


def _close_connections() -> None:
    for pool in _pools.values():
        pool.engine.dispose()


def _leave_connections_to_the_parent() -> None:
    """Those that another thread was using. Kept, not closed: closing one would end the parent's session."""
    global _adding
    _adding = threading.Lock()  # a thread that is not here may hold it
    for pool in _pools.values():
        _of_the_parent.append(pool.engine.pool)
        pool.engine.dispose(close=False)


os.register_at_fork(before=_close_connections, after_in_child=_leave_connections_to_the_parent)
