"""Applying a move: one guarded statement, its audit row and the counts, in the caller's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import LostLease
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.lifecycle import Move, State, after
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.schema import attempts, job_items, state_transitions
from content_pipeline.manifest.statements import CHUNK, clean, in_chunks, locked

SNIPPET_LENGTH = 200
ERROR_LENGTH = 4000
CODE_LENGTH = 40

NO_LEASE: dict[str, Any] = {
    "lease_token": None,
    "worker_id": None,
    "last_heartbeat": None,
    "lease_expires_at": None,
    "cancel_requested": False,
    "progress": None,
    "run_id": None,
}

# A job that starts over has a whole budget again.
FULL_BUDGET: dict[str, Any] = {"attempt_count": 0, "crash_count": 0, "completed_at": None}


def as_job(row: sa.Row[Any]) -> Job:
    values = dict(row._mapping)
    values["status"] = State(values["status"])
    return Job(**values)


def lock_jobs(tx: Transaction, conditions: Sequence[sa.ColumnElement[bool]]) -> Iterator[Sequence[Job]]:
    """Jobs, locked, in the order of their ids, some at a time: an order about 100,000 jobs needs little memory."""
    last = ""
    while True:
        query = sa.select(job_items).where(*conditions, job_items.c.job_id > last).order_by(job_items.c.job_id)
        jobs = [as_job(row) for row in tx.connection.execute(locked(query.limit(CHUNK)))]
        if not jobs:
            return
        yield jobs
        last = jobs[-1].job_id


def move(
    tx: Transaction,
    jobs: Sequence[Job],
    by: Move,
    reason: str,
    values: Mapping[str, Any] | None = None,
    error: str | None = None,
) -> None:
    """Move jobs that were read, locked, in this transaction. A state that has changed since changes nothing at all."""
    for state, group in _by_state(jobs).items():
        target = after(by, state)
        for some in in_chunks(group):
            ids = [job.job_id for job in some]
            done = tx.connection.execute(
                sa.update(job_items)
                .where(job_items.c.job_id.in_(ids), job_items.c.status == state)
                .values(status=target, updated_at=tx.now, **(values or {}))
            )
            if done.rowcount != len(ids):
                raise LostLease(f"{len(ids) - done.rowcount} of {len(ids)} jobs changed while they were being moved")
        _write_audit(tx, group, target, reason, error)
        count(tx, _change(group, target))


def _change(jobs: Sequence[Job], to: State | None) -> Counter[tuple[str, str]]:
    """How the counts change when these jobs go to a state, or are deleted."""
    change: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        change[job.kind, job.status] -= 1
        if to is not None:
            change[job.kind, to] += 1
    return change


def delete(tx: Transaction, jobs: Sequence[Job]) -> None:
    for some in in_chunks(jobs):
        tx.connection.execute(sa.delete(job_items).where(job_items.c.job_id.in_([job.job_id for job in some])))
    count(tx, _change(jobs, None))


def _by_state(jobs: Sequence[Job]) -> dict[State, list[Job]]:
    groups: dict[State, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.status, []).append(job)
    return groups


def _write_audit(tx: Transaction, jobs: Sequence[Job], to: State, reason: str, error: str | None = None) -> None:
    tx.connection.execute(
        sa.insert(state_transitions),
        [
            {
                "job_id": job.job_id,
                "attempt": job.claim_count,
                "from_state": job.status,
                "to_state": to,
                "timestamp": tx.now,
                "worker_id": job.worker_id,
                "run_id": job.run_id,
                "reason": clean(reason, SNIPPET_LENGTH),
                "error_snippet": None if error is None else clean(error, SNIPPET_LENGTH),
            }
            for job in jobs
        ],
    )


def count(tx: Transaction, change: Mapping[tuple[str, str], int]) -> None:
    """Note how the number of jobs per kind and state changes."""
    tx.counts.update(change)


def end_attempt(
    tx: Transaction,
    job: Job,
    outcome: str,
    code: str | None = None,
    error: str | None = None,
    cost: Mapping[str, Any] | None = None,
) -> None:
    tx.connection.execute(
        sa.update(attempts)
        .where(attempts.c.job_id == job.job_id, attempts.c.number == job.claim_count, attempts.c.ended_at.is_(None))
        .values(
            ended_at=tx.now,
            outcome=outcome,
            error_code=None if code is None else clean(code, CODE_LENGTH),
            error=None if error is None else clean(error, ERROR_LENGTH),
            cost=dict(cost or {}),
            run_id=job.run_id,
        )
    )
