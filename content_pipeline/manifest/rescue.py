"""Bringing orphans back: running jobs whose worker is gone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.jobs_part import JobsPart
from content_pipeline.manifest.lease import fenced_job
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Job, Lease
from content_pipeline.manifest.retry_policy import after_crash
from content_pipeline.manifest.schema import attempts, job_items
from content_pipeline.manifest.statements import locked
from content_pipeline.manifest.transitions import as_job, end_attempt
from content_pipeline.manifest.worker_ops import apply_decision

MOST_RESCUES = 10
CRASHED, RESCUED = "crashed", "rescued"


@retry_when_away
class RescueJobs(JobsPart):
    """Orphans, and the workers that jobs are held by."""

    def crashed(self, lease: Lease, what_happened: str) -> None:
        """Its process died; said by the one who watched it."""
        with self._database.transaction() as tx:
            bring_back(tx, fenced_job(tx, lease), what_happened)

    def rescue(self, dead_workers: Collection[str] = ()) -> list[Job]:
        with self._database.transaction() as tx:
            return rescue(tx, dead_workers)

    def stale(self, dead_workers: Collection[str] = ()) -> Sequence[Job]:
        """Running jobs whose worker is gone: what `rescue` would bring back. Changes nothing."""
        with self._database.connect() as connection:
            return stale(connection, self._database.now(connection), dead_workers)

    def workers(self) -> Sequence[str]:
        with self._database.connect() as connection:
            return _workers(connection)

    def overdue_workers(self) -> Sequence[str]:
        with self._database.connect() as connection:
            return overdue_workers(connection, self._database.now(connection))

    def is_leased(self, job_id: str, claim_number: int) -> bool:
        """Whether an attempt still has its lease. True of a job that is not known: it may be of another manifest."""
        with self._database.connect() as connection:
            return is_leased(connection, job_id, claim_number, self._database.now(connection))


def rescue(tx: Transaction, dead_workers: Collection[str] = ()) -> list[Job]:
    """A job is an orphan when its lease has run out, or its worker is known to be dead; never because it is long."""
    orphans = [as_job(row) for row in tx.connection.execute(locked(orphans_query(tx), skip=True))]
    if dead_workers:
        query = sa.select(job_items).where(
            job_items.c.worker_id.in_(list(dead_workers)), job_items.c.status == State.RUNNING
        )
        known = {job.job_id for job in orphans}
        found = [as_job(row) for row in tx.connection.execute(locked(query, skip=True))]
        orphans += [job for job in found if job.job_id not in known]
    for job in orphans:
        bring_back(tx, job, f"the worker {job.worker_id} is gone", _rescues(tx, job))
    return orphans


def bring_back(tx: Transaction, job: Job, what_happened: str, rescues: int | None = None) -> None:
    """`rescues`: how often it was rescued before, when nobody saw what happened; None when its process was seen dying.

    A machine that loses power, or a person who kills the command, is not the job's fault: such ends have a budget
    of their own, so large that only a file which takes its machine down again and again uses it up.
    """
    if rescues is None:
        crashes = job.crash_count + 1
        apply_decision(tx, job, after_crash(crashes, job.max_crashes), "crashed", what_happened, crashes)
    else:
        apply_decision(tx, job, after_crash(rescues + 1, MOST_RESCUES), "crashed", what_happened)
    end_attempt(tx, job, CRASHED if rescues is None else RESCUED, "crashed", what_happened)


def _rescues(tx: Transaction, job: Job) -> int:
    """How often in a row it was rescued."""
    outcomes = tx.connection.execute(
        sa.select(attempts.c.outcome)
        .where(attempts.c.job_id == job.job_id, attempts.c.ended_at.is_not(None))
        .order_by(attempts.c.number.desc())
        .limit(MOST_RESCUES)
    ).scalars()
    return sum(1 for _ in takewhile(lambda outcome: outcome == RESCUED, outcomes))


def orphans_query(tx: Transaction) -> sa.Select[Any]:
    return sa.select(job_items).where(*_overdue(tx.now))


def _overdue(now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return job_items.c.status == State.RUNNING, job_items.c.lease_expires_at < now


def overdue_workers(connection: sa.Connection, now: datetime) -> Sequence[str]:
    """Who holds jobs whose lease has run out, and that nobody has brought back yet."""
    query = sa.select(job_items.c.worker_id).where(*_overdue(now)).distinct()
    return [worker for worker in connection.execute(query).scalars() if worker is not None]


def stale(connection: sa.Connection, now: datetime, dead_workers: Collection[str]) -> list[Job]:
    """What a rescue would bring back now. Locks and changes nothing."""
    of_the_dead = job_items.c.status == State.RUNNING, job_items.c.worker_id.in_(list(dead_workers))
    query = sa.select(job_items).where(sa.or_(sa.and_(*_overdue(now)), sa.and_(*of_the_dead)))
    return [as_job(row) for row in connection.execute(query.order_by(job_items.c.job_id))]


def is_leased(connection: sa.Connection, job_id: str, claim_number: int, now: datetime) -> bool:
    columns = job_items.c
    query = sa.select(columns.status, columns.claim_count, columns.lease_expires_at).where(columns.job_id == job_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        return True
    is_running = row.status == State.RUNNING and row.claim_count == claim_number
    return bool(is_running and row.lease_expires_at >= now)


def _workers(connection: sa.Connection) -> Sequence[str]:
    """Who holds jobs right now."""
    query = sa.select(job_items.c.worker_id).where(job_items.c.status == State.RUNNING).distinct()
    return [worker for worker in connection.execute(query).scalars() if worker is not None]
