"""Enqueueing and claiming: how work gets into the manifest and into a worker's hands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest import breakers
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.lifecycle import CLAIMABLE, Move, State
from content_pipeline.manifest.model import Job, QueueType, Request
from content_pipeline.manifest.moves import NO_LEASE, as_job, count, insert_for, locked, move
from content_pipeline.manifest.schema import attempts, job_items

CHUNK = 500


def enqueue(tx: Transaction, requests: Sequence[Request]) -> int:
    """Insert what is not there yet; asking again for a subject changes nothing. Returns how many are new."""
    inserted = 0
    for start in range(0, len(requests), CHUNK):
        chunk = requests[start : start + CHUNK]
        statement = insert_for(tx, job_items).on_conflict_do_nothing(index_elements=["queue_type", "video_path"])
        rows = [_new_row(tx, request) for request in chunk]
        tx.connection.execute(statement, rows)
        ours = sa.select(job_items.c.queue_type).where(job_items.c.job_id.in_([row["job_id"] for row in rows]))
        created = Counter((row.queue_type, str(State.PENDING)) for row in tx.connection.execute(ours))
        inserted += created.total()
        count(tx, created)
    return inserted


def _new_row(tx: Transaction, request: Request) -> dict[str, Any]:
    return {
        **vars(request),
        **NO_LEASE,
        "job_id": new_ulid(),
        "status": State.PENDING,
        "stage_keys": {},
        "claim_count": 0,
        "attempt_count": 0,
        "crash_count": 0,
        "available_at": tx.now,
        "created_at": tx.now,
        "updated_at": tx.now,
        "output_files": [],
        "output_hashes": {},
        "results": {},
        "cost": {},
    }


def claim(
    tx: Transaction,
    worker_id: str,
    number: int,
    queue_type: QueueType,
    lease_s: float,
    job_ids: Sequence[str] | None,
) -> list[Job]:
    """Take up to `number` due jobs, the highest priority first, under a fresh lease; count the attempt."""
    gate = breakers.gate(tx)
    if gate.everything_waits:
        return []
    due = gate.let_through(_due(tx, number, queue_type, gate.paused_libraries, job_ids))[:number]
    if not due:
        return []
    token = new_ulid()
    lease = {
        "lease_token": token,
        "worker_id": worker_id,
        "last_heartbeat": tx.now,
        "lease_expires_at": tx.now + timedelta(seconds=lease_s),
        "started_at": tx.now,
        "completed_at": None,
        "claim_count": job_items.c.claim_count + 1,
        "attempt_count": job_items.c.attempt_count + 1,
    }
    numbered = [replace(job, claim_count=job.claim_count + 1, worker_id=worker_id) for job in due]
    move(tx, numbered, Move.CLAIM, "claimed", lease)
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
            lease_expires_at=lease["lease_expires_at"],
            last_heartbeat=tx.now,
            started_at=tx.now,
            completed_at=None,
            updated_at=tx.now,
        )
        for job in numbered
    ]


def _due(
    tx: Transaction,
    number: int,
    queue_type: QueueType,
    paused_libraries: Sequence[str],
    job_ids: Sequence[str] | None,
) -> list[Job]:
    """Each state is read in the order of its index, no further than needed; what others hold is passed over."""
    found: list[Job] = []
    for state in CLAIMABLE:
        query = due_query(tx, queue_type, state, paused_libraries, job_ids).limit(number)
        found += [as_job(row) for row in tx.connection.execute(locked(query, skip=True))]
    return sorted(found, key=lambda job: (-job.priority, job.available_at, job.job_id))


def due_query(
    tx: Transaction,
    queue_type: QueueType,
    state: State,
    paused_libraries: Sequence[str] = (),
    job_ids: Sequence[str] | None = None,
) -> sa.Select[Any]:
    query = sa.select(job_items).where(
        job_items.c.queue_type == queue_type, job_items.c.status == state, job_items.c.available_at <= tx.now
    )
    if paused_libraries:
        query = query.where(job_items.c.library.not_in(paused_libraries))
    if job_ids is not None:
        query = query.where(job_items.c.job_id.in_(job_ids))
    return query.order_by(job_items.c.priority.desc(), job_items.c.available_at, job_items.c.job_id)
