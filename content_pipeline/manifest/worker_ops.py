"""What a worker reports of a job that it has claimed. Every write is fenced: without its lease it writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest import breakers
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.jobs_part import JobsPart
from content_pipeline.manifest.lease import fenced_job
from content_pipeline.manifest.lifecycle import MOVES, Move, State
from content_pipeline.manifest.model import Job, JobFailure, JobResult, Lease
from content_pipeline.manifest.retry_policy import RetryDecision, after_error
from content_pipeline.manifest.schema import attempts, job_items
from content_pipeline.manifest.statements import clean
from content_pipeline.manifest.transitions import CODE_LENGTH, ERROR_LENGTH, FULL_BUDGET, NO_LEASE, end_attempt, move

# Why a job that has just succeeded is to be done again.
OTHER_OPTIONS = "asked for with other options while it ran"


@retry_when_away
class ReportJobs(JobsPart):
    """What a worker reports; all of it fenced."""

    def report_progress(self, lease: Lease, progress: dict[str, Any]) -> None:
        with self._database.transaction() as tx:
            report_progress(tx, lease, progress)

    def report_run(self, lease: Lease, run_id: str, video_key: str | None = None) -> None:
        with self._database.transaction() as tx:
            report_run(tx, lease, run_id, video_key)

    def succeed(self, lease: Lease, result: JobResult, claimed: Job | None = None) -> None:
        """`claimed`: the job as it was when the work began. Asked for on other terms since, it is dirty at once."""
        with self._database.transaction() as tx:
            succeed(tx, lease, result, claimed)

    def fail(self, lease: Lease, failure: JobFailure) -> RetryDecision:
        with self._database.transaction() as tx:
            return fail(tx, lease, failure, self._random)

    def release(self, lease: Lease, reason: str) -> None:
        with self._database.transaction() as tx:
            release(tx, lease, reason)

    def stop_cancelled(self, lease: Lease) -> None:
        with self._database.transaction() as tx:
            stop_cancelled(tx, lease)


def report_progress(tx: Transaction, lease: Lease, progress: dict[str, Any]) -> None:
    fenced_job(tx, lease)
    tx.connection.execute(sa.update(job_items).where(job_items.c.job_id == lease.job_id).values(progress=progress))


def report_run(tx: Transaction, lease: Lease, run_id: str, video_key: str | None) -> None:
    """Which run carries the attempt and, once known, which video it is about."""
    fenced_job(tx, lease)
    known = {"run_id": run_id} if video_key is None else {"run_id": run_id, "video_key": video_key}
    tx.connection.execute(sa.update(job_items).where(job_items.c.job_id == lease.job_id).values(known))
    of_this_attempt = attempts.c.job_id == lease.job_id, attempts.c.number == lease.claim_number
    tx.connection.execute(sa.update(attempts).where(*of_this_attempt).values(run_id=run_id))


def succeed(tx: Transaction, lease: Lease, result: JobResult, claimed: Job | None = None) -> None:
    """What was asked for meanwhile, on other terms than the work began with (`claimed`), is not lost: it waits."""
    job = fenced_job(tx, lease)
    as_asked = claimed is None or (job.options, job.force_id) == (claimed.options, claimed.force_id)
    breakers.record_success(tx, job, result.computed)
    kept = {name: value for name, value in asdict(result).items() if value is not None}
    values = {**NO_LEASE, **kept, "completed_at": tx.now, "error_code": None, "last_error": None, "run_id": job.run_id}
    move(tx, [job], Move.SUCCEED, "succeeded", {**values, "force_id": None} if as_asked else values)
    end_attempt(tx, job, "succeeded", cost=result.cost)
    if not as_asked:
        done = replace(job, status=State.SUCCEEDED)
        again = {**FULL_BUDGET, "available_at": tx.now}
        move(tx, [done], Move.MARK_DIRTY, OTHER_OPTIONS, again)


def fail(tx: Transaction, lease: Lease, failure: JobFailure, random: Callable[[], float]) -> RetryDecision:
    job = fenced_job(tx, lease)
    breakers.record_failure(tx, job, failure)
    decision = after_error(failure.policy, job.attempt_count, job.max_attempts, random)
    end_attempt(tx, job, "failed", failure.code, failure.message, failure.cost)
    return apply_decision(tx, job, decision, failure.code, failure.message)


def apply_decision(
    tx: Transaction, job: Job, decision: RetryDecision, code: str, message: str, crashes: int | None = None
) -> RetryDecision:
    """Carry out what `retry_policy.py` decided about a running job, unless a person wanted it stopped anyway."""
    decision = _honour_cancel(job, decision)
    values = {
        **NO_LEASE,
        "error_code": clean(code, CODE_LENGTH),
        "last_error": clean(message, ERROR_LENGTH),
        "available_at": tx.now + timedelta(seconds=decision.delay_s),
        "completed_at": None if decision.move in (Move.POSTPONE, Move.RESCUE) else tx.now,
        "attempt_count": job.attempt_count - int(decision.refund),
        "crash_count": job.crash_count if crashes is None else crashes,
        "run_id": None if decision.move in (Move.POSTPONE, Move.RESCUE) else job.run_id,
    }
    move(tx, [job], decision.move, decision.reason, values, error=f"{code}: {message}")
    return decision


def _honour_cancel(job: Job, decision: RetryDecision) -> RetryDecision:
    """A request to stop outlives the attempt: what would go back to the queue is cancelled instead."""
    if job.cancel_requested and MOVES[decision.move][State.RUNNING] is State.PENDING:
        return replace(decision, move=Move.CANCEL, delay_s=0.0, reason=f"cancelled while running; {decision.reason}")
    return decision


def release(tx: Transaction, lease: Lease, reason: str) -> None:
    """Give the job back as it was: the attempt costs nothing."""
    job = fenced_job(tx, lease)
    decision = _honour_cancel(job, RetryDecision(Move.RELEASE, 0.0, True, reason))
    values = {
        **NO_LEASE,
        "attempt_count": job.attempt_count - 1,
        "available_at": tx.now,
        "completed_at": tx.now if decision.move is Move.CANCEL else None,
    }
    move(tx, [job], decision.move, decision.reason, values)
    end_attempt(tx, job, "released")


def stop_cancelled(tx: Transaction, lease: Lease) -> None:
    """The worker has stopped a job that a person asked to stop."""
    job = fenced_job(tx, lease)
    move(tx, [job], Move.CANCEL, "cancelled while running", {**NO_LEASE, "completed_at": tx.now})
    end_attempt(tx, job, "cancelled")
