"""What people and plans order: cancel, discard, resume, retry, mark dirty, ask, clear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import IllegalMove, UnknownJob
from content_pipeline.manifest.claim import claim
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.enqueue import enqueue
from content_pipeline.manifest.job_filter import ALL, JobFilter
from content_pipeline.manifest.jobs_part import JobsPart
from content_pipeline.manifest.lifecycle import CLAIMABLE, MOVES, Move, State
from content_pipeline.manifest.model import ClaimRequest, Job, JobRequest, JobTerms
from content_pipeline.manifest.schema import job_items
from content_pipeline.manifest.statements import in_chunks, locked
from content_pipeline.manifest.transitions import FULL_BUDGET, as_job, delete, lock_jobs, move

NO_ERROR: dict[str, Any] = {**FULL_BUDGET, "error_code": None, "last_error": None}


@retry_when_away
class OrderJobs(JobsPart):
    """What people and plans order."""

    def ask(self, request: JobRequest, reason: str) -> Job:
        with self._database.transaction() as tx:
            return ask(tx, request, reason)

    def ask_again(self, job_ids: Sequence[str], reason: str, terms: JobTerms) -> None:
        with self._database.transaction() as tx:
            ask_again(tx, job_ids, reason, terms)

    def raise_priority(self, job_ids: Sequence[str], priority: int) -> int:
        """Of those that wait with a lower one; returns how many."""
        with self._database.transaction() as tx:
            return raise_priority(tx, job_ids, priority)

    def ask_and_claim(self, request: JobRequest, reason: str, worker_id: str) -> tuple[Job, Job | None]:
        """Ask for a subject and claim its job, atomically: nobody in between can ask for something else.

        Returns the job as it was found, and as it was claimed: None while another works on it, or work is paused.
        """
        with self._database.transaction() as tx:
            found = ask(tx, request, reason)
            its = ClaimRequest(worker_id, kind=request.kind, job_ids=[found.job_id], ignore_backoff=True)
            claimed = claim(tx, its, self._lease_s)
            return found, claimed[0] if claimed else None

    def cancel(self, job_filter: JobFilter = ALL) -> tuple[int, int]:
        with self._database.transaction() as tx:
            return cancel(tx, job_filter)

    def discard(self, job_filter: JobFilter) -> int:
        with self._database.transaction() as tx:
            return discard(tx, job_filter)

    def resume(self, job_filter: JobFilter = ALL) -> int:
        with self._database.transaction() as tx:
            return resume(tx, job_filter)

    def retry(
        self, job_filter: JobFilter = ALL, reason: str = "retried by a person", priority: int | None = None
    ) -> int:
        with self._database.transaction() as tx:
            return retry(tx, job_filter, reason, priority)

    def mark_dirty(self, job_filter: JobFilter, reason: str, priority: int | None = None) -> int:
        with self._database.transaction() as tx:
            return mark_dirty(tx, job_filter, reason, priority)

    def clear(self, job_filter: JobFilter = ALL) -> int:
        with self._database.transaction() as tx:
            return clear(tx, job_filter)


def cancel(tx: Transaction, job_filter: JobFilter) -> tuple[int, int]:
    """Cancel what waits; ask what runs to stop. Returns how many of each."""
    cancelled = asked = 0
    for jobs in _movable(tx, job_filter, Move.CANCEL):
        running = [job.job_id for job in jobs if job.status is State.RUNNING]
        waiting = [job for job in jobs if job.status is not State.RUNNING]
        if running:
            stop = sa.update(job_items).where(job_items.c.job_id.in_(running)).values(cancel_requested=True)
            tx.connection.execute(stop)
        move(tx, waiting, Move.CANCEL, "cancelled by a person", {"completed_at": tx.now})
        cancelled, asked = cancelled + len(waiting), asked + len(running)
    return cancelled, asked


def discard(tx: Transaction, job_filter: JobFilter) -> int:
    return _move_all(tx, job_filter, Move.DISCARD, "discarded by a person", {"completed_at": tx.now})


def resume(tx: Transaction, job_filter: JobFilter) -> int:
    return _move_all(tx, job_filter, Move.RESUME, "resumed by a person", {**NO_ERROR, "available_at": tx.now})


def retry(tx: Transaction, job_filter: JobFilter, reason: str, priority: int | None = None) -> int:
    return _move_all(tx, job_filter, Move.RETRY, reason, {**NO_ERROR, **_due_now(tx, priority)})


def mark_dirty(tx: Transaction, job_filter: JobFilter, reason: str, priority: int | None = None) -> int:
    """What these jobs made no longer holds."""
    return _move_all(tx, job_filter, Move.MARK_DIRTY, reason, {**FULL_BUDGET, **_due_now(tx, priority)})


def ask(tx: Transaction, request: JobRequest, reason: str) -> Job:
    """One subject anew, in whatever state its job is; what is asked takes the place of what was asked before.

    A running job is left alone: whoever asks finds that it cannot be claimed.
    """
    enqueue(tx, [request])
    its = job_items.c.kind == request.kind, job_items.c.subject == request.subject
    job = as_job(tx.connection.execute(locked(sa.select(job_items).where(*its))).one())
    by = _BACK_TO_WORK.get(job.status)
    asked = {"options": request.options, "force_id": request.force_id, "requires": request.requires}
    if by is not None:
        move(tx, [job], by, reason, {**NO_ERROR, **_due_now(tx, request.priority), **asked})
    elif job.status is not State.RUNNING:
        move(tx, [job], Move.ASK, reason, asked)
    return job


def ask_again(tx: Transaction, job_ids: Sequence[str], reason: str, terms: JobTerms) -> None:
    """Have these jobs done on these terms, whatever became of them since they were looked at.

    What succeeded or failed goes back to work. What waits goes on waiting, on the new terms; what runs is done on
    them afterwards: see `succeed`. Terms without options, which nobody named, change nothing that waits or runs.
    What a person cancelled or discarded stays so.
    """
    forced = {} if terms.force_id is None else {"force_id": terms.force_id}
    asked = {"options": terms.options, "requires": terms.requires, **forced}
    for ids in in_chunks(sorted(set(job_ids))):
        jobs = [job for some in lock_jobs(tx, [job_items.c.job_id.in_(ids)]) for job in some]
        for state, by, fresh in ((State.SUCCEEDED, Move.MARK_DIRTY, FULL_BUDGET), (State.FAILED, Move.RETRY, NO_ERROR)):
            values = {**fresh, **asked, **_due_now(tx, terms.priority)}
            move(tx, [job for job in jobs if job.status is state], by, reason, values)
        if terms.options is not None:
            others = [job for job in jobs if terms.differ_from(job)]
            move(tx, [job for job in others if job.status in CLAIMABLE], Move.ASK, reason, asked)
            running = [job.job_id for job in others if job.status is State.RUNNING]
            if running:
                tx.connection.execute(sa.update(job_items).where(job_items.c.job_id.in_(running)).values(asked))


def raise_priority(tx: Transaction, job_ids: Sequence[str], priority: int) -> int:
    """What waits with a lower priority gets this one. No state changes: history says nothing of it."""
    raised = 0
    for ids in in_chunks(sorted(set(job_ids))):
        waiting = job_items.c.job_id.in_(ids), job_items.c.status.in_(list(CLAIMABLE)), job_items.c.priority < priority
        raised += tx.connection.execute(sa.update(job_items).where(*waiting).values(priority=priority)).rowcount
    return raised


_BACK_TO_WORK = {
    State.SUCCEEDED: Move.MARK_DIRTY,
    State.FAILED: Move.RETRY,
    State.CANCELLED: Move.RESUME,
    State.DISCARDED: Move.RESUME,
}


def _due_now(tx: Transaction, priority: int | None) -> dict[str, Any]:
    due = {"available_at": tx.now}
    return due if priority is None else {**due, "priority": priority}


def _move_all(tx: Transaction, job_filter: JobFilter, by: Move, reason: str, values: Mapping[str, Any]) -> int:
    moved = 0
    for jobs in _movable(tx, job_filter, by):
        move(tx, jobs, by, reason, values)
        moved += len(jobs)
    return moved


def _movable(tx: Transaction, job_filter: JobFilter, by: Move) -> Iterator[Sequence[Job]]:
    """The jobs an order applies to, some at a time. Named ones must all allow it; else those that do are meant."""
    if job_filter.job_ids is None:
        yield from lock_jobs(tx, [*job_filter.conditions(), job_items.c.status.in_(list(MOVES[by]))])
        return
    named = sorted(set(job_filter.job_ids))
    for ids in in_chunks(named):
        jobs = [job for some in lock_jobs(tx, replace(job_filter, job_ids=ids).conditions()) for job in some]
        if job_filter.if_possible:
            yield [job for job in jobs if job.status in MOVES[by]]
            continue
        missing = set(ids) - {job.job_id for job in jobs}
        if missing:
            raise UnknownJob(f"no such job: {', '.join(sorted(missing))}")
        refused = next((job for job in jobs if job.status not in MOVES[by]), None)
        if refused is not None:
            raise IllegalMove(f"job {refused.job_id} is {refused.status}; `{by}` does not apply to it")
        yield jobs


def clear(tx: Transaction, job_filter: JobFilter) -> int:
    """Remove jobs that are not running; their history stays until it is pruned."""
    cleared = 0
    for ids in [None] if job_filter.job_ids is None else in_chunks(job_filter.job_ids):
        these = replace(job_filter, job_ids=ids).conditions()
        for jobs in lock_jobs(tx, [*these, job_items.c.status != State.RUNNING]):
            delete(tx, jobs)
            cleared += len(jobs)
    return cleared
