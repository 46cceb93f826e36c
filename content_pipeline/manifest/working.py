"""What a worker says of a job it holds. Every write passes the fence; one that lost its lease writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest import breakers
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.lifecycle import Move, State
from content_pipeline.manifest.model import Job, Lease, Renewal, Result
from content_pipeline.manifest.moves import ERROR_LENGTH, NO_LEASE, end_attempt, held, move
from content_pipeline.manifest.retry import Decision, after_error
from content_pipeline.manifest.schema import job_items


def renew(tx: Transaction, worker_id: str, leases: Sequence[Lease], lease_s: float) -> Renewal:
    """All of a worker's leases in one statement."""
    returned = tx.connection.execute(
        sa.update(job_items)
        .where(job_items.c.worker_id == worker_id, job_items.c.status == State.RUNNING)
        .values(last_heartbeat=tx.now, lease_expires_at=tx.now + timedelta(seconds=lease_s))
        .returning(job_items.c.job_id, job_items.c.claim_count, job_items.c.lease_token, job_items.c.cancel_requested)
    ).all()
    alive = {(row.job_id, row.claim_count, row.lease_token) for row in returned}
    return Renewal(
        lost=frozenset(
            lease.job_id for lease in leases if (lease.job_id, lease.claim_number, lease.token) not in alive
        ),
        cancelled=frozenset(row.job_id for row in returned if row.cancel_requested),
    )


def note(tx: Transaction, lease: Lease, values: dict[str, Any]) -> None:
    """Write something about a running job that is no move: its progress, its run, its key."""
    job = held(tx, lease)
    tx.connection.execute(sa.update(job_items).where(job_items.c.job_id == job.job_id).values(**values))


def succeed(tx: Transaction, lease: Lease, result: Result) -> None:
    job = held(tx, lease)
    kept = {name: value for name, value in asdict(result).items() if value is not None}
    values = {**NO_LEASE, **kept, "completed_at": tx.now, "error_code": None, "last_error": None, "run_id": job.run_id}
    move(tx, [job], Move.SUCCEED, "succeeded", values)
    end_attempt(tx, job, "succeeded", cost=result.cost)
    breakers.note_success(tx, job)


def fail(
    tx: Transaction,
    lease: Lease,
    code: str,
    message: str,
    policy: RetryPolicy,
    random: Callable[[], float],
    stage: str | None = None,
    cost: dict[str, Any] | None = None,
) -> Decision:
    job = held(tx, lease)
    decision = after_error(policy, job.attempt_count, job.max_attempts, random)
    apply(tx, job, decision, code, message)
    end_attempt(tx, job, "failed", code, message, cost)
    breakers.note_failure(tx, job, policy, code, message, stage)
    return decision


def apply(tx: Transaction, job: Job, decision: Decision, code: str, message: str, crashes: int | None = None) -> None:
    """Carry out what `retry` decided about a running job."""
    ended = decision.move in (Move.FAIL, Move.QUARANTINE)
    values = {
        **NO_LEASE,
        "error_code": code,
        "last_error": message[:ERROR_LENGTH],
        "available_at": tx.now + timedelta(seconds=decision.delay_s),
        "completed_at": tx.now if ended else None,
        "attempt_count": job.attempt_count - int(decision.refund),
        "crash_count": job.crash_count if crashes is None else crashes,
    }
    move(tx, [job], decision.move, decision.reason, values, error=f"{code}: {message}")


def release(tx: Transaction, lease: Lease, reason: str) -> None:
    """Give the job back as it was: the attempt costs nothing."""
    job = held(tx, lease)
    values = {**NO_LEASE, "attempt_count": job.attempt_count - 1, "available_at": tx.now}
    move(tx, [job], Move.RELEASE, reason, values)
    end_attempt(tx, job, "released")


def stop_cancelled(tx: Transaction, lease: Lease) -> None:
    """The worker has stopped a job that a person asked to stop."""
    job = held(tx, lease)
    move(tx, [job], Move.CANCEL, "cancelled while running", {**NO_LEASE, "completed_at": tx.now})
    end_attempt(tx, job, "cancelled")
