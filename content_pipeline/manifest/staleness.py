"""When jobs were last up to date, and since when and why they wait to be done again: for reports, in one query each."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.schema import attempts, job_items, state_transitions
from content_pipeline.manifest.statements import below
from content_pipeline.manifest.storage_roots import roots_of


class JobAge(NamedTuple):
    """`succeeded_at`: of the last success that is still on record. `dirty_since` and `dirty_reason`: of a dirty job."""

    job_id: str
    succeeded_at: datetime | None
    dirty_since: datetime | None = None
    dirty_reason: str | None = None


def ages_under(connection: sa.Connection, folder: Path, kind: str) -> dict[str, JobAge]:
    """By job id, of every job of a kind whose subject lies below a folder."""
    its = job_items.c.kind == kind, *below(job_items.c.subject, folder, roots_of(connection.dialect))
    ages = {age.job_id: age for age in _successes(connection, its)}
    for row in connection.execute(_last_marks(its)):
        ages[row.job_id] = ages[row.job_id]._replace(dirty_since=row.timestamp, dirty_reason=row.reason)
    return ages


def _successes(connection: sa.Connection, its: tuple[sa.ColumnElement[bool], ...]) -> list[JobAge]:
    """A rebuilt job has no attempt on record; as long as it is not marked, it says itself when it succeeded."""
    latest = sa.func.max(attempts.c.ended_at, type_=attempts.c.ended_at.type).label("latest")
    of_job = attempts.c.job_id == job_items.c.job_id, attempts.c.outcome == "succeeded"
    columns = job_items.c.job_id, job_items.c.status, job_items.c.completed_at
    query = sa.select(*columns, latest).outerjoin(attempts, sa.and_(*of_job)).where(*its).group_by(*columns)
    return [
        JobAge(row.job_id, row.completed_at if row.latest is None and row.status == State.SUCCEEDED else row.latest)
        for row in connection.execute(query)
    ]


def _last_marks(its: tuple[sa.ColumnElement[bool], ...]) -> sa.Select[tuple[str, datetime, str]]:
    changes = state_transitions.c
    marked = (
        sa.select(sa.func.max(changes.id))
        .join(job_items, job_items.c.job_id == changes.job_id)
        .where(*its, job_items.c.status == State.DIRTY, changes.to_state == State.DIRTY)
        .group_by(changes.job_id)
    )
    return sa.select(changes.job_id, changes.timestamp, changes.reason).where(changes.id.in_(marked))
