"""What a failure of the manifest's database means for the work: most are waits, and none is a bug of the program."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabasePermission,
    DatabaseReadOnly,
    DiskFull,
    FolderUnwritable,
    ManifestDamaged,
    PipelineError,
)
from content_pipeline.manifest.database_owner import damaged

# By Postgres's codes, or by their first two letters, which name a class of them.
_POSTGRES: dict[str, type[PipelineError]] = {
    "53100": DiskFull,
    "25006": DatabaseReadOnly,  # a standby, or a server that was made one
    "25P03": DatabaseBusy,  # idle in a transaction for too long
    "25P04": DatabaseBusy,  # a transaction took too long
    "42501": DatabasePermission,
    "40": DatabaseBusy,  # a deadlock, or a snapshot that another overtook
    "55P03": DatabaseBusy,  # a lock was not to be had in time
    "57014": DatabaseBusy,  # a statement took too long, or was cancelled
    "08": DatabaseAway,  # the connection
    "53": DatabaseAway,  # too many connections, out of memory
    "57P": DatabaseAway,  # shut down, crashed, starting
    "58": DatabaseAway,  # the server's own disk or system
    "XX001": ManifestDamaged,
    "XX002": ManifestDamaged,
    "42P01": ManifestDamaged,  # a table is gone
    "42703": ManifestDamaged,  # a column is gone
}
_MESSAGES: dict[type[PipelineError], str] = {
    DiskFull: "the manifest has no room to write",
    DatabaseReadOnly: "the manifest takes no writes now",
    DatabaseBusy: "the manifest is busy",
    DatabaseAway: "the manifest does not answer",
    DatabasePermission: "the manifest's database refuses this to its role",
    ManifestDamaged: "the manifest is damaged",
}


def name_failure(error: sa.exc.DBAPIError, engine: sa.Engine) -> PipelineError | None:
    """The error under the name that workers act on; None when it is none of the database's business."""
    if isinstance(error.orig, sqlite3.Error):
        return _of_sqlite(error.orig, Path(str(engine.url.database)))
    return _of_postgres(error)


def _of_sqlite(error: sqlite3.Error, path: Path) -> PipelineError | None:
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_READONLY_DBMOVED:
        return DatabaseAway(f"the manifest was moved or deleted in this moment: {error}")
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return DiskFull(f"the manifest has no room to write: {error}")
        case sqlite3.SQLITE_BUSY:
            return DatabaseBusy(f"the manifest is busy: {error}")
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            return DatabaseAway(f"the manifest cannot be reached: {error}")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return FolderUnwritable(f"the manifest cannot be written: {error}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_FORMAT:
            return damaged(path, str(error))
    if "no such table" in str(error) or "no such column" in str(error):
        return damaged(path, str(error))
    return None


def _of_postgres(error: sa.exc.DBAPIError) -> PipelineError | None:
    kind = kind_in_postgres(error)
    return None if kind is None else kind(f"{_MESSAGES[kind]}: {first_line(error.orig)}")


def kind_in_postgres(error: sa.exc.DBAPIError) -> type[PipelineError] | None:
    """What a complaint of Postgres is, by its code; None when it is none of the database's business."""
    code: str | None = getattr(error.orig, "pgcode", None)
    kind: type[PipelineError] | None = None
    if code is not None:
        kind = next((_POSTGRES[code[:n]] for n in (5, 3, 2) if code[:n] in _POSTGRES), None)
    # Without a code the server had no say in it: it was not there, or the connection broke.
    elif type(error) in (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.DatabaseError):
        kind = DatabaseAway
    if kind is None:
        kind = DatabaseAway if error.connection_invalidated else None
    return kind


def first_line(error: Any) -> str:
    """Of what a driver says, which may go on with the statement and where in it."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
