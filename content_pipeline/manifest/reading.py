"""Looking at the manifest without changing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Attempt, Job, JobKind, Transition
from content_pipeline.manifest.operator_ops import JobFilter
from content_pipeline.manifest.schema import attempts, job_counts, job_items, state_transitions
from content_pipeline.manifest.transitions import UnknownJob, as_job, in_chunks

ID_LENGTH = 26


def counts_query() -> sa.Select[Any]:
    return sa.select(job_counts.c.kind, job_counts.c.status, sa.func.sum(job_counts.c.jobs).label("jobs")).group_by(
        job_counts.c.kind, job_counts.c.status
    )


def counts(connection: sa.Connection) -> dict[JobKind, dict[State, int]]:
    """How many jobs of each type are in each state; zeros included."""
    found = {kind: dict.fromkeys(State, 0) for kind in JobKind}
    for row in connection.execute(counts_query()):
        found[JobKind(row.kind)][State(row.status)] = int(row.jobs)
    return found


def get(connection: sa.Connection, job_id: str) -> Job:
    """By its id, or the beginning of it when that is clear."""
    wanted = job_id.upper()
    # A whole id is found by the index; a beginning is typed by a person, who can wait for a scan.
    whole = job_items.c.job_id == wanted
    matches = whole if len(wanted) == ID_LENGTH else job_items.c.job_id.startswith(wanted, autoescape=True)
    rows = connection.execute(sa.select(job_items).where(matches).limit(2)).all() if wanted else []
    if len(rows) != 1:
        raise UnknownJob(f"{'more than one job' if rows else 'no job'} starts with {job_id!r}")
    return as_job(rows[0])


def list_jobs(connection: sa.Connection, job_filter: JobFilter, limit: int | None = None, offset: int = 0) -> list[Job]:
    if job_filter.job_ids is None:
        return _page(connection, job_filter, limit, offset)
    named = [replace(job_filter, job_ids=ids) for ids in in_chunks(sorted(set(job_filter.job_ids)))]
    found = [job for some in named for job in _page(connection, some)]
    return found[offset:] if limit is None else found[offset : offset + limit]


def _page(connection: sa.Connection, job_filter: JobFilter, limit: int | None = None, offset: int = 0) -> list[Job]:
    query = (
        sa.select(job_items).where(*job_filter.conditions()).order_by(job_items.c.job_id).limit(limit).offset(offset)
    )
    return [as_job(row) for row in connection.execute(query)]


def find(connection: sa.Connection, kind: JobKind, subject: str) -> Job | None:
    query = sa.select(job_items).where(job_items.c.kind == kind, job_items.c.subject == subject)
    row = connection.execute(query).one_or_none()
    return None if row is None else as_job(row)


def history(connection: sa.Connection, job_id: str) -> Sequence[Transition]:
    query = sa.select(state_transitions).where(state_transitions.c.job_id == job_id).order_by(state_transitions.c.id)
    return [_transition(row) for row in connection.execute(query)]


def attempts_of(connection: sa.Connection, job_id: str) -> Sequence[Attempt]:
    query = sa.select(attempts).where(attempts.c.job_id == job_id).order_by(attempts.c.number)
    return [Attempt(**row._mapping) for row in connection.execute(query)]


def _transition(row: sa.Row[Any]) -> Transition:
    values = dict(row._mapping)
    return Transition(**{**values, "from_state": State(values["from_state"]), "to_state": State(values["to_state"])})
