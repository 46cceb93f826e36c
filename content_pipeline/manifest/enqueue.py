"""Taking in work: many jobs in one statement, as fast as the database allows.

Written for the driver itself: building each row through SQLAlchemy costs three times what the database needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.jobs_part import JobsPart
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import JobRequest
from content_pipeline.manifest.schema import PathText
from content_pipeline.manifest.storage_roots import StorageRoots, roots_of
from content_pipeline.manifest.transitions import count

CHUNK = 5000

# What differs from job to job, with its type on Postgres; and what every new job begins with.
_GIVEN = {
    "job_id": "text",
    "library": "text",
    "subject": "text",
    "video_key": "text",
    "priority": "integer",
    "max_attempts": "integer",
    "max_crashes": "integer",
    "input_size": "bigint",
    "metadata": "text",
    "options": "text",
    "force_id": "text",
    "requires": "text",
}
_JSON = ("metadata", "options")
_NEW = {
    "status": f"'{State.PENDING}'",
    "stage_keys": "'{}'",
    "claim_count": "0",
    "attempt_count": "0",
    "crash_count": "0",
    "cancel_requested": "false",
    "output_files": "'[]'",
    "output_hashes": "'{}'",
    "results": "'{}'",
    "cost": "'{}'",
}
_SHARED = ("kind", "available_at", "created_at", "updated_at")
_INTO = f"INSERT INTO job_items ({', '.join((*_GIVEN, *_SHARED, *_NEW))})"
_ONCE = "ON CONFLICT (kind, subject) DO NOTHING"
_CONSTANTS = ", ".join(_NEW.values())

_SQLITE = f"{_INTO} VALUES ({', '.join('?' * len(_GIVEN))}, ?, ?, ?, ?, {_CONSTANTS}) {_ONCE}"
_POSTGRES = (
    f"{_INTO} SELECT {', '.join(name + '::json' if name in _JSON else name for name in _GIVEN)}, "
    f"%s, %s, %s, %s, {_CONSTANTS} "
    f"FROM unnest({', '.join(f'%s::{kind}[]' for kind in _GIVEN.values())}) AS given ({', '.join(_GIVEN)}) {_ONCE}"
)


@retry_when_away
class EnqueueJobs(JobsPart):
    """Taking in work."""

    def enqueue(self, requests: Sequence[JobRequest]) -> int:
        with self._database.transaction() as tx:
            return enqueue(tx, requests)


def enqueue(tx: Transaction, requests: Sequence[JobRequest]) -> int:
    """Insert what is not there yet; asking again for a subject changes nothing. Returns how many are new."""
    # Named in the order asked for, so that the first asked is the first claimed; inserted in one order that all
    # share, so that two who ask for the same never deadlock.
    roots = roots_of(tx.connection.dialect)
    rows = [(request.kind, *_row(request, roots)) for request in requests]
    rows.sort(key=lambda row: (row[0], row[3]))
    insert = _insert_sqlite if tx.connection.dialect.name == "sqlite" else _insert_postgres
    inserted = 0
    for kind, group in groupby(rows, key=lambda row: row[0]):
        created = insert(tx, kind, [row[1:] for row in group])
        count(tx, {(kind, State.PENDING): created})
        inserted += created
    return inserted


def _row(request: JobRequest, roots: StorageRoots) -> tuple[Any, ...]:
    return (
        new_ulid(),
        PathText.stored(roots.to_stored(request.library)),
        PathText.stored(roots.to_stored(request.subject)),
        request.video_key,
        request.priority,
        request.max_attempts,
        request.max_crashes,
        request.input_size,
        json.dumps(request.metadata) if request.metadata else "{}",
        None if request.options is None else json.dumps(roots.json_to_stored(request.options)),
        request.force_id,
        request.requires,
    )


def _insert_sqlite(tx: Transaction, kind: str, rows: list[tuple[Any, ...]]) -> int:
    now = _as_sqlite_keeps_it(tx.now)
    shared = (kind, now, now, now)
    return tx.connection.exec_driver_sql(_SQLITE, [row + shared for row in rows]).rowcount


def _as_sqlite_keeps_it(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def _insert_postgres(tx: Transaction, kind: str, rows: list[tuple[Any, ...]]) -> int:
    shared = (kind, tx.now, tx.now, tx.now)
    return sum(
        tx.connection.exec_driver_sql(_POSTGRES, (*shared, *columns)).rowcount for columns in _columns_of_chunks(rows)
    )


def _columns_of_chunks(rows: list[tuple[Any, ...]]) -> Iterable[list[list[Any]]]:
    for start in range(0, len(rows), CHUNK):
        yield [list(column) for column in zip(*rows[start : start + CHUNK], strict=True)]
