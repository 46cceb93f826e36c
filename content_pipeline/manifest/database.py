"""Opening the manifest's database: SQLite by default, Postgres by URL."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from content_pipeline.errors import BadSettings
from content_pipeline.manifest.schema import metadata

BUSY_TIMEOUT_MS = 30_000


def open_engine(url: str) -> sa.Engine:
    """An engine of this process; never carry one across a fork."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise BadSettings(f"`db` = {url!r} is neither a path nor a database URL") from error
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed)
    if parsed.get_backend_name() == "postgresql":
        # dagster-postgres brings psycopg2; a bare `postgresql://` would ask for psycopg 3.
        engine = sa.create_engine(parsed.set(drivername="postgresql+psycopg2"), pool_pre_ping=True)
        metadata.create_all(engine)
        return engine
    raise BadSettings(f"`db` must be SQLite or Postgres, not {parsed.get_backend_name()}")


def _open_sqlite(url: sa.URL) -> sa.Engine:
    if url.database is not None:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    sa.event.listen(engine, "connect", _set_pragmas)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        metadata.create_all(engine)
    except sa.exc.DBAPIError as error:
        raise BadSettings(f"{url.database} cannot be used as the manifest: {error.orig}") from error
    return engine


def _set_pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are ours: BEGIN IMMEDIATE, see above
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    connection.execute(f"PRAGMA journal_mode={'WAL' if _wal_is_safe() else 'TRUNCATE'}")
    connection.execute("PRAGMA synchronous=FULL")


def _wal_is_safe() -> bool:
    """SQLite before 3.51.3 can corrupt a WAL that several processes reset (fixed in 3.50.7 and 3.44.6 too)."""
    version = sqlite3.sqlite_version_info
    return version >= (3, 51, 3) or (version[:2] == (3, 50) and version >= (3, 50, 7)) or version[:3] == (3, 44, 6)
