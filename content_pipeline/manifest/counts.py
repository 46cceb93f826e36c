"""How many jobs of each kind are in each state: kept up to date by every transaction, so that nobody counts rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.schema import job_counts
from content_pipeline.manifest.statements import insert_for

COUNT_SLOTS = 16


def counts_query() -> sa.Select[Any]:
    return sa.select(job_counts.c.kind, job_counts.c.status, sa.func.sum(job_counts.c.jobs).label("jobs")).group_by(
        job_counts.c.kind, job_counts.c.status
    )


def read_counts(connection: sa.Connection) -> dict[str, dict[State, int]]:
    """How many jobs of each kind that was ever used are in each state; zeros included."""
    found: dict[str, dict[State, int]] = {}
    for row in connection.execute(counts_query()):
        found.setdefault(row.kind, dict.fromkeys(State, 0))[State(row.status)] = int(row.jobs)
    return found


def write_counts(connection: sa.Connection, changes: Mapping[tuple[str, str], int]) -> None:
    """The last statement of a transaction, with how the number of jobs in each state changed in it.

    Several workers share these rows: they are locked last, for the shortest time, and always in the same order, so
    that there is no deadlock.
    """
    slot = os.getpid() % COUNT_SLOTS
    rows = [
        {"kind": kind, "status": status, "slot": slot, "jobs": number}
        for (kind, status), number in sorted(changes.items())
        if number
    ]
    if rows:
        statement = insert_for(connection, job_counts)
        statement = statement.on_conflict_do_update(
            index_elements=["kind", "status", "slot"],
            set_={"jobs": job_counts.c.jobs + statement.excluded.jobs},
        )
        connection.execute(statement, rows)
