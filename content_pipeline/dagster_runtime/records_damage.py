"""Dagster's databases, deleted, damaged or out of reach: each under one name, with the way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import (
    DagsterHomeBroken,
    DatabaseAway,
    DatabaseBusy,
    DatabasePermission,
    DatabaseReadOnly,
    DiskFull,
    ManifestDamaged,
    PipelineError,
    name_database_error,
    printable,
)
from content_pipeline.manifest.database_errors import first_line, kind_in_postgres
from content_pipeline.system.read_beginning import read_beginning

try:
    from pysqlite3 import Error as SqliteError
except ImportError:
    from sqlite3 import Error as SqliteError

MAGIC = b"SQLite format 3\0"
SCHEMA = "dagster_records"  # of Postgres. Not `dagster`: a user of that name would see it as the place of the manifest
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)

_IN_POSTGRES: dict[type[PipelineError], str] = {
    DiskFull: "have no room to write",
    DatabaseReadOnly: "take no writes now",
    DatabaseBusy: "are busy",
    DatabaseAway: "do not answer",
    DatabasePermission: "are refused to this role",
}


def broken(path: Path, why: str) -> DagsterHomeBroken:
    """With the way out, as a command that can be typed."""
    shown = printable(path)
    return DagsterHomeBroken(
        f"Dagster's records in {shown} cannot be used: {why}",
        hint=f"Move the file away, `mv {shown} {shown}.damaged`, and run the command again: a new one is made. "
        "Only the history of runs is lost, no result.",
    )


def expect_database(path: Path) -> None:
    """Of a file that was a database once. An empty one would pass for a database without tables."""
    try:
        begins = read_beginning(path, len(MAGIC))
    except FileNotFoundError:
        return  # deleted in this moment: it is made anew when it is used
    if begins != MAGIC:
        raise broken(path, "it is no database any more" if begins else "it is empty")


def forget_log(path: Path) -> None:
    """The log of a database that is gone: SQLite would write what is in it into the new one."""
    for ending in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


@contextmanager
def named_failures(path: Path) -> Iterator[None]:
    try:
        yield
    except sa.exc.DBAPIError as error:
        _raise_named(error, error.orig, path)
    except SqliteError as error:  # of a connection that was just opened
        _raise_named(error, error, path)


def _raise_named(error: Exception, said: Any, path: Path) -> None:
    named = _named(said, path)
    if named is None:
        raise error
    raise named from error


def _named(error: Any, path: Path) -> PipelineError | None:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in DAMAGE or "no such table" in str(error) or "no such column" in str(error):
        return broken(path, str(error))
    if code == sqlite3.SQLITE_BUSY:
        return DatabaseBusy(f"Dagster's records in {printable(path)} are busy: {error}")
    return name_database_error(error)


def name_postgres_failure(error: sa.exc.DBAPIError, place: str) -> PipelineError | None:
    """`place` is the database's address without its password. None when it is none of the database's business."""
    kind, why = kind_in_postgres(error), first_line(error.orig)
    if kind is None:
        return None
    if kind is not ManifestDamaged:
        return kind(f"Dagster's records in {place} {_IN_POSTGRES[kind]}: {why}")
    return DagsterHomeBroken(
        f"Dagster's records in {place} cannot be used: {why}",
        hint=f"Put the schema aside with psql, `ALTER SCHEMA {SCHEMA} RENAME TO {SCHEMA}_damaged`, and run the command "
        "again: a new one is made. Only the history of runs is lost, no result.",
    )
