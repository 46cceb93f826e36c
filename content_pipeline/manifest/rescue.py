"""Bringing orphans back: running jobs whose worker is gone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.moves import as_job, end_attempt, locked
from content_pipeline.manifest.retry import after_crash
from content_pipeline.manifest.schema import job_items
from content_pipeline.manifest.working import apply


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
        bring_back(tx, job, f"the worker {job.worker_id} is gone")
    return orphans


def bring_back(tx: Transaction, job: Job, what_happened: str) -> None:
    crashes = job.crash_count + 1
    decision = after_crash(crashes, job.max_crashes)
    apply(tx, job, decision, "crashed", what_happened, crashes)
    end_attempt(tx, job, "crashed", "crashed", what_happened)


def orphans_query(tx: Transaction) -> sa.Select[Any]:
    return sa.select(job_items).where(job_items.c.status == State.RUNNING, job_items.c.lease_expires_at < tx.now)


def workers_of(connection: sa.Connection) -> Sequence[str]:
    """Who holds jobs right now."""
    query = sa.select(job_items.c.worker_id).where(job_items.c.status == State.RUNNING).distinct()
    return [worker for worker in connection.execute(query).scalars() if worker is not None]
