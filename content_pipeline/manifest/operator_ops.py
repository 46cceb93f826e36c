"""What people and plans do to jobs: cancel, discard, resume, retry, spoil, prune, clear."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.enqueue import enqueue
from content_pipeline.manifest.lifecycle import CLAIMABLE, FINISHED, MOVES, IllegalMove, Move, State
from content_pipeline.manifest.model import Job, JobKind, JobRequest, Terms
from content_pipeline.manifest.schema import (
    attempts,
    breakers,
    calibrations,
    job_counts,
    job_items,
    publications,
    settings_snapshots,
    state_transitions,
    videos,
)
from content_pipeline.manifest.statements import CHUNK, in_chunks, locked
from content_pipeline.manifest.transitions import FRESH, UnknownJob, as_job, delete, move

FORGIVEN: dict[str, Any] = {**FRESH, "error_code": None, "last_error": None}


@dataclass(frozen=True)
class JobFilter:
    """Which jobs an order is about; nothing said means all that it can apply to."""

    job_ids: Sequence[str] | None = None
    kind: JobKind | None = None
    library: str | None = None
    status: State | None = None
    error_code: str | None = None
    video_key: str | None = None
    since: datetime | None = None
    if_possible: bool = False  # of named jobs, move those that still allow it, and leave the rest

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        columns = job_items.c
        given = {
            columns.kind: self.kind,
            columns.library: self.library,
            columns.status: self.status,
            columns.error_code: self.error_code,
            columns.video_key: self.video_key,
        }
        found = [column == value for column, value in given.items() if value is not None]
        if self.job_ids is not None:
            found.append(columns.job_id.in_(self.job_ids))
        if self.since is not None:
            found.append(columns.updated_at >= self.since)
        return found


def cancel(tx: Transaction, job_filter: JobFilter) -> tuple[int, int]:
    """Cancel what waits; ask what runs to stop. Returns how many of each."""
    cancelled = asked = 0
    for jobs in _movable(tx, job_filter, Move.CANCEL):
        running = [job.job_id for job in jobs if job.status is State.RUNNING]
        waiting = [job for job in jobs if job.status is not State.RUNNING]
        if running:
            wish = sa.update(job_items).where(job_items.c.job_id.in_(running)).values(cancel_requested=True)
            tx.connection.execute(wish)
        move(tx, waiting, Move.CANCEL, "cancelled by a person", {"completed_at": tx.now})
        cancelled, asked = cancelled + len(waiting), asked + len(running)
    return cancelled, asked


def discard(tx: Transaction, job_filter: JobFilter) -> int:
    return _move_all(tx, job_filter, Move.DISCARD, "discarded by a person", {"completed_at": tx.now})


def resume(tx: Transaction, job_filter: JobFilter) -> int:
    return _move_all(tx, job_filter, Move.RESUME, "resumed by a person", {**FORGIVEN, "available_at": tx.now})


def retry(tx: Transaction, job_filter: JobFilter, reason: str, priority: int | None = None) -> int:
    return _move_all(tx, job_filter, Move.RETRY, reason, {**FORGIVEN, **_soon(tx, priority)})


def mark_dirty(tx: Transaction, job_filter: JobFilter, reason: str, priority: int | None = None) -> int:
    """What these jobs made no longer holds."""
    return _move_all(tx, job_filter, Move.MARK_DIRTY, reason, {**FRESH, **_soon(tx, priority)})


def ask(tx: Transaction, request: JobRequest, reason: str) -> Job:
    """One subject anew, in whatever state its job is; what is asked takes the place of what was asked before.

    A running job is left alone: whoever asks finds that it cannot be claimed.
    """
    enqueue(tx, [request])
    its = job_items.c.kind == request.kind, job_items.c.subject == request.subject
    job = as_job(tx.connection.execute(locked(sa.select(job_items).where(*its))).one())
    by = _BACK_TO_WORK.get(job.status)
    if by is not None:
        move(tx, [job], by, reason, {**FORGIVEN, **_soon(tx, request.priority), "options": request.options})
    elif job.status is not State.RUNNING:
        move(tx, [job], Move.ASK, reason, {"options": request.options})
    return job


def ask_again(tx: Transaction, job_ids: Sequence[str], reason: str, terms: Terms) -> None:
    """Have these jobs done on these terms, whatever became of them since they were looked at.

    What succeeded or failed goes back to work. What waits goes on waiting, on the new terms; what runs is done on
    them afterwards: see `succeed`. Terms without options, which nobody named, change nothing that waits or runs.
    What a person cancelled or discarded stays so.
    """
    asked = {"options": terms.options, **({} if terms.force_id is None else {"force_id": terms.force_id})}
    for ids in in_chunks(sorted(set(job_ids))):
        jobs = [job for some in _some_at_a_time(tx, [job_items.c.job_id.in_(ids)]) for job in some]
        for state, by, fresh in ((State.SUCCEEDED, Move.MARK_DIRTY, FRESH), (State.FAILED, Move.RETRY, FORGIVEN)):
            values = {**fresh, **asked, **_soon(tx, terms.priority)}
            move(tx, [job for job in jobs if job.status is state], by, reason, values)
        if terms.options is not None:
            others = [job for job in jobs if terms.force_id is not None or job.options != terms.options]
            move(tx, [job for job in others if job.status in CLAIMABLE], Move.ASK, reason, asked)
            running = [job.job_id for job in others if job.status is State.RUNNING]
            if running:
                tx.connection.execute(sa.update(job_items).where(job_items.c.job_id.in_(running)).values(asked))


_BACK_TO_WORK = {
    State.SUCCEEDED: Move.MARK_DIRTY,
    State.FAILED: Move.RETRY,
    State.CANCELLED: Move.RESUME,
    State.DISCARDED: Move.RESUME,
}


def _soon(tx: Transaction, priority: int | None) -> dict[str, Any]:
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
        yield from _some_at_a_time(tx, [*job_filter.conditions(), job_items.c.status.in_(list(MOVES[by]))])
        return
    named = sorted(set(job_filter.job_ids))
    for ids in in_chunks(named):
        jobs = [job for some in _some_at_a_time(tx, replace(job_filter, job_ids=ids).conditions()) for job in some]
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


def _some_at_a_time(tx: Transaction, conditions: Sequence[sa.ColumnElement[bool]]) -> Iterator[Sequence[Job]]:
    """Locked, in the order of their ids, in pieces: an order about 100,000 jobs needs little memory."""
    last = ""
    while True:
        query = sa.select(job_items).where(*conditions, job_items.c.job_id > last).order_by(job_items.c.job_id)
        jobs = [as_job(row) for row in tx.connection.execute(locked(query.limit(CHUNK)))]
        if not jobs:
            return
        yield jobs
        last = jobs[-1].job_id


def prune(tx: Transaction, before: datetime, spared: Collection[str] = ()) -> dict[str, int]:
    """Forget the history of what ended before a time, and the jobs of videos that are gone, but for spared files.

    A finished job of a file that is still there keeps its row: without it the next scan would take the
    video for a new one. So does a calibration, whose subject is no video.
    """
    old = [job_items.c.status.in_(list(FINISHED)), job_items.c.completed_at < before]
    seen = sa.exists().where(videos.c.path == job_items.c.subject, sa.not_(videos.c.offline))
    gone = [*old, job_items.c.kind != JobKind.CALIBRATION, sa.not_(seen)]
    forgotten = transitions = 0
    for found in _some_at_a_time(tx, gone):
        jobs = [job for job in found if job.subject not in spared]
        delete(tx, jobs)
        transitions += _forget_history(tx, [job.job_id for job in jobs])
        forgotten += len(jobs)
    for found in _some_at_a_time(tx, old):
        transitions += _shorten_history(tx, [job.job_id for job in found], before)
    transitions += _forget_the_cleared(tx, before)
    return {"jobs": forgotten, "transitions": transitions}


def _shorten_history(tx: Transaction, ids: Sequence[str], before: datetime) -> int:
    """The last transition stays: it says how the job came to its state."""
    changes = state_transitions.c
    latest = sa.select(sa.func.max(changes.id)).where(changes.job_id.in_(ids)).group_by(changes.job_id)
    old = changes.job_id.in_(ids), changes.timestamp < before, changes.id.not_in(latest)
    return tx.connection.execute(sa.delete(state_transitions).where(*old)).rowcount


def _forget_history(tx: Transaction, ids: Sequence[str]) -> int:
    tx.connection.execute(sa.delete(attempts).where(attempts.c.job_id.in_(ids)))
    return tx.connection.execute(sa.delete(state_transitions).where(state_transitions.c.job_id.in_(ids))).rowcount


def _forget_the_cleared(tx: Transaction, before: datetime) -> int:
    """The history that jobs left behind when a person cleared them."""
    for_ever = sa.not_(sa.exists().where(job_items.c.job_id == state_transitions.c.job_id))
    gone = sa.select(state_transitions.c.job_id).where(for_ever).group_by(state_transitions.c.job_id)
    ids = tx.connection.execute(gone.having(sa.func.max(state_transitions.c.timestamp) < before)).scalars().all()
    return sum(_forget_history(tx, some) for some in in_chunks(ids))


def clear(tx: Transaction, job_filter: JobFilter) -> int:
    """Remove jobs that are not running; their history stays until it is pruned."""
    cleared = 0
    for ids in [None] if job_filter.job_ids is None else in_chunks(job_filter.job_ids):
        these = replace(job_filter, job_ids=ids).conditions()
        for jobs in _some_at_a_time(tx, [*these, job_items.c.status != State.RUNNING]):
            delete(tx, jobs)
            cleared += len(jobs)
    return cleared


def reset(tx: Transaction) -> None:
    """Forget everything."""
    of_jobs = (job_items, state_transitions, attempts, job_counts)
    for table in (*of_jobs, breakers, settings_snapshots, calibrations, publications, videos):
        tx.connection.execute(sa.delete(table))
