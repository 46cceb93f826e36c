"""Claiming: how work gets into a worker's hands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest import breakers
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.lifecycle import CLAIMABLE, Move, State
from content_pipeline.manifest.model import Job, JobKind
from content_pipeline.manifest.schema import attempts, job_items
from content_pipeline.manifest.statements import locked
from content_pipeline.manifest.transitions import NO_LEASE, as_job, move


def claim(
    tx: Transaction,
    worker_id: str,
    number: int,
    kind: JobKind,
    lease_s: float,
    job_ids: Sequence[str] | None,
    hash_of: Callable[[Job], str | None] | None = None,
    now_due: bool = False,
) -> list[Job]:
    """Take up to `number` due jobs, the highest priority first, under a fresh lease; count the attempt.

    `hash_of` says which settings this attempt of a job is made with. `now_due`: a person asked for these, and they
    are not to wait out their back-off.
    """
    gate = breakers.gate(tx)
    if number < 1 or gate.everything_waits:
        return []
    due = gate.let_through(_due(tx, number, kind, gate, job_ids, now_due))[:number]
    if not due:
        return []
    token = new_ulid()
    lease = {
        **NO_LEASE,
        "lease_token": token,
        "worker_id": worker_id,
        "last_heartbeat": tx.now,
        "lease_expires_at": tx.now + timedelta(seconds=lease_s),
        "started_at": tx.now,
        "completed_at": None,
        "claim_count": job_items.c.claim_count + 1,
        "attempt_count": job_items.c.attempt_count + 1,
    }
    # The audit names the new attempt and its worker, and not the run of the one before.
    numbered = [replace(job, claim_count=job.claim_count + 1, worker_id=worker_id, run_id=None) for job in due]
    if hash_of is not None:
        numbered = [replace(job, config_hash=hash_of(job)) for job in numbered]
    for config_hash in dict.fromkeys(job.config_hash for job in numbered):
        alike = [job for job in numbered if job.config_hash == config_hash]
        move(tx, alike, Move.CLAIM, "claimed", {**lease, "config_hash": config_hash})
    tx.connection.execute(
        sa.insert(attempts),
        [
            {"job_id": job.job_id, "number": job.claim_count, "worker_id": worker_id, "started_at": tx.now, "cost": {}}
            for job in numbered
        ],
    )
    gate.note_probes(tx, numbered)
    return [
        replace(
            job,
            status=State.RUNNING,
            attempt_count=job.attempt_count + 1,
            lease_token=token,
            cancel_requested=False,
            progress=None,
            lease_expires_at=lease["lease_expires_at"],
            last_heartbeat=tx.now,
            started_at=tx.now,
            completed_at=None,
            updated_at=tx.now,
        )
        for job in numbered
    ]


def due(tx: Transaction, number: int, kind: JobKind, lowest_priority: int | None = None) -> list[Job]:
    """The jobs that a claim would take now; they stay where they are."""
    gate = breakers.gate(tx)
    if number < 1 or gate.everything_waits:
        return []
    found: list[Job] = []
    for state, (conditions, is_probe) in product(CLAIMABLE, gate.openings()):
        query = due_query(tx, kind, state, conditions)
        if lowest_priority is not None:
            query = query.where(job_items.c.priority >= lowest_priority)
        found += [as_job(row) for row in tx.connection.execute(query.limit(1 if is_probe else number))]
    return gate.let_through(_in_order(found))[:number]


def next_due(connection: sa.Connection) -> datetime | None:
    query = sa.select(sa.func.min(job_items.c.available_at)).where(job_items.c.status.in_(list(CLAIMABLE)))
    return connection.execute(query).scalar()


def _in_order(jobs: Sequence[Job]) -> list[Job]:
    once = {job.job_id: job for job in jobs}
    return sorted(once.values(), key=lambda job: (-job.priority, job.available_at, job.job_id))


def _due(
    tx: Transaction,
    number: int,
    kind: JobKind,
    gate: breakers.Gate,
    job_ids: Sequence[str] | None,
    now_due: bool,
) -> list[Job]:
    """Each state is read in the order of its index, no further than needed; what others hold is passed over."""
    found: list[Job] = []
    for state, (conditions, is_probe) in product(CLAIMABLE, gate.openings()):
        query = due_query(tx, kind, state, conditions, job_ids, now_due).limit(1 if is_probe else number)
        found += [as_job(row) for row in tx.connection.execute(locked(query, skip=True))]
    return _in_order(found)


def due_query(
    tx: Transaction,
    kind: JobKind,
    state: State,
    conditions: Sequence[sa.ColumnElement[bool]] = (),
    job_ids: Sequence[str] | None = None,
    now_due: bool = False,
) -> sa.Select[Any]:
    query = sa.select(job_items).where(job_items.c.kind == kind, job_items.c.status == state, *conditions)
    if not now_due:
        query = query.where(job_items.c.available_at <= tx.now)
    if job_ids is not None:
        query = query.where(job_items.c.job_id.in_(job_ids))
    return query.order_by(job_items.c.priority.desc(), job_items.c.available_at, job_items.c.job_id)
