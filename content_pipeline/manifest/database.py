"""Opening the manifest's database: SQLite by default, Postgres by URL, brought to the newest schema."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool

from content_pipeline.errors import BadSettings, DatabaseAway

BUSY_TIMEOUT_MS = 60_000
SCHEMA_VERSION = "0002"


def open_engine(url: str) -> sa.Engine:
    """An engine of this process; after a fork, parent and child each have their own connections."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise BadSettings(f"`db` = {url!r} is neither a path nor a database URL") from error
    match parsed.get_backend_name():
        case "sqlite":
            engine = _sqlite(parsed)
        case "postgresql":
            # dagster-postgres brings psycopg2; a bare `postgresql://` would ask for psycopg 3.
            engine = sa.create_engine(parsed.set(drivername="postgresql+psycopg2"), pool_pre_ping=True)
        case other:
            raise BadSettings(f"`db` must be SQLite or Postgres, not {other}")
    _engines.add(engine)
    _bring_up_to_date(engine, parsed)
    return engine


_engines: weakref.WeakSet[sa.Engine] = weakref.WeakSet()


def _leave_connections_to_the_parent() -> None:
    for engine in _engines:
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_leave_connections_to_the_parent)


def _bring_up_to_date(engine: sa.Engine, url: sa.URL) -> None:
    try:
        if _version(engine) != SCHEMA_VERSION:
            from content_pipeline.manifest.migrate import upgrade

            upgrade(engine)
    except sa.exc.OperationalError as error:
        if engine.dialect.name == "postgresql":
            raise DatabaseAway(f"the manifest at {url.render_as_string()} does not answer: {error.orig}") from error
        raise BadSettings(f"{url.database} cannot be used as the manifest: {error.orig}") from error
    except sa.exc.DatabaseError as error:
        raise BadSettings(f"{url.database} cannot be used as the manifest: {error.orig}") from error


def _version(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _sqlite(url: sa.URL) -> sa.Engine:
    if url.database is not None:
        try:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadSettings(f"{url.database} cannot be used as the manifest: {error.strerror}") from error
    engine = sa.create_engine(url, poolclass=QueuePool, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    sa.event.listen(engine, "connect", _set_pragmas)
    return engine


def _set_pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `transaction` below
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    connection.execute(f"PRAGMA journal_mode={'WAL' if wal_is_safe(sqlite3.sqlite_version_info) else 'TRUNCATE'}")
    connection.execute("PRAGMA synchronous=FULL")


def wal_is_safe(version: tuple[int, int, int]) -> bool:
    """SQLite before 3.51.3 can corrupt a WAL that several processes reset (fixed in 3.50.7 and 3.44.6 too)."""
    fixed = ((3, 50), 7), ((3, 44), 6)
    return version >= (3, 51, 3) or any(version[:2] == minor and version[2] >= patch for minor, patch in fixed)


@dataclass(frozen=True)
class Transaction:
    """One transaction, and the database's time in it: every row that it writes carries the same."""

    connection: sa.Connection
    now: datetime


@contextmanager
def transaction(engine: sa.Engine, now: datetime | None = None) -> Iterator[Transaction]:
    """All or nothing. On SQLite the write lock is taken at once, so that no reader has to upgrade and fail."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            yield Transaction(connection, database_now(connection) if now is None else now)
        except BaseException:
            connection.rollback()
            raise
        connection.commit()


def database_now(connection: sa.Connection) -> datetime:
    """The database's own clock: hosts that share it agree on when a lease ends."""
    if connection.dialect.name == "sqlite":  # one host, one clock
        return datetime.now(UTC)
    found: datetime = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
    return found.astimezone(UTC)
