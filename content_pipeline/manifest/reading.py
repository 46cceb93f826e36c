"""Looking at the manifest without changing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Attempt, Job, QueueType, Transition
from content_pipeline.manifest.moves import UnknownJob, as_job
from content_pipeline.manifest.schema import attempts, job_counts, job_items, state_transitions
from content_pipeline.manifest.steering import Which


def counts_query() -> sa.Select[Any]:
    return sa.select(
        job_counts.c.queue_type, job_counts.c.status, sa.func.sum(job_counts.c.jobs).label("jobs")
    ).group_by(job_counts.c.queue_type, job_counts.c.status)


def counts(connection: sa.Connection) -> dict[QueueType, dict[State, int]]:
    """How many jobs of each type are in each state; zeros included."""
    found = {queue_type: dict.fromkeys(State, 0) for queue_type in QueueType}
    for row in connection.execute(counts_query()):
        found[QueueType(row.queue_type)][State(row.status)] = int(row.jobs)
    return found


def get(connection: sa.Connection, job_id: str) -> Job:
    """By its id, or the beginning of it when that is clear."""
    query = sa.select(job_items).where(job_items.c.job_id.startswith(job_id.upper(), autoescape=True)).limit(2)
    rows = connection.execute(query).all()
    if len(rows) != 1:
        raise UnknownJob(f"{'no job' if not rows else 'more than one job'} starts with {job_id}")
    return as_job(rows[0])


def list_jobs(connection: sa.Connection, which: Which, limit: int | None = None, offset: int = 0) -> list[Job]:
    query = sa.select(job_items).where(*which.conditions()).order_by(job_items.c.job_id).offset(offset)
    return [as_job(row) for row in connection.execute(query if limit is None else query.limit(limit))]


def find(connection: sa.Connection, queue_type: QueueType, video_path: str) -> Job | None:
    query = sa.select(job_items).where(job_items.c.queue_type == queue_type, job_items.c.video_path == video_path)
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
