"""What people and plans do to jobs: cancel, discard, resume, retry, spoil, prune, clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.lifecycle import FINISHED, MOVES, IllegalMove, Move, State
from content_pipeline.manifest.model import Job, QueueType
from content_pipeline.manifest.moves import UnknownJob, as_job, delete, locked, move
from content_pipeline.manifest.schema import (
    attempts,
    breakers,
    job_counts,
    job_items,
    settings_snapshots,
    state_transitions,
    videos,
)

# A job that starts over has a whole budget again.
FRESH: dict[str, Any] = {"attempt_count": 0, "crash_count": 0, "completed_at": None}
FORGIVEN: dict[str, Any] = {**FRESH, "error_code": None, "last_error": None}


@dataclass(frozen=True)
class Which:
    """Which jobs an order is about; nothing said means all that it can apply to."""

    job_ids: Sequence[str] | None = None
    queue_type: QueueType | None = None
    library: str | None = None
    status: State | None = None
    error_code: str | None = None
    since: datetime | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        columns = job_items.c
        given = {
            columns.queue_type: self.queue_type,
            columns.library: self.library,
            columns.status: self.status,
            columns.error_code: self.error_code,
        }
        found = [column == value for column, value in given.items() if value is not None]
        if self.job_ids is not None:
            found.append(columns.job_id.in_(self.job_ids))
        if self.since is not None:
            found.append(columns.updated_at >= self.since)
        return found


def cancel(tx: Transaction, which: Which) -> tuple[int, int]:
    """Cancel what waits; ask what runs to stop. Returns how many of each."""
    jobs = _movable(tx, which, Move.CANCEL)
    running = [job for job in jobs if job.status is State.RUNNING]
    waiting = [job for job in jobs if job.status is not State.RUNNING]
    if running:
        ids = [job.job_id for job in running]
        tx.connection.execute(sa.update(job_items).where(job_items.c.job_id.in_(ids)).values(cancel_requested=True))
    move(tx, waiting, Move.CANCEL, "cancelled by a person", {"completed_at": tx.now})
    return len(waiting), len(running)


def discard(tx: Transaction, which: Which) -> int:
    jobs = _movable(tx, which, Move.DISCARD)
    move(tx, jobs, Move.DISCARD, "discarded by a person", {"completed_at": tx.now})
    return len(jobs)


def resume(tx: Transaction, which: Which) -> int:
    jobs = _movable(tx, which, Move.RESUME)
    move(tx, jobs, Move.RESUME, "resumed by a person", {**FORGIVEN, "available_at": tx.now})
    return len(jobs)


def retry(tx: Transaction, which: Which, reason: str) -> int:
    jobs = _movable(tx, which, Move.RETRY)
    move(tx, jobs, Move.RETRY, reason, {**FORGIVEN, "available_at": tx.now})
    return len(jobs)


def spoil(tx: Transaction, which: Which, reason: str) -> int:
    """What these jobs made no longer holds."""
    jobs = _movable(tx, which, Move.SPOIL)
    move(tx, jobs, Move.SPOIL, reason, {**FRESH, "available_at": tx.now})
    return len(jobs)


def _movable(tx: Transaction, which: Which, by: Move) -> list[Job]:
    """The jobs an order applies to. Named ones must all allow it; of the rest, those that do are meant."""
    query = sa.select(job_items).where(*which.conditions()).order_by(job_items.c.job_id)
    if which.job_ids is None:
        query = query.where(job_items.c.status.in_(list(MOVES[by])))
    jobs = [as_job(row) for row in tx.connection.execute(locked(query))]
    if which.job_ids is not None:
        missing = set(which.job_ids) - {job.job_id for job in jobs}
        if missing:
            raise UnknownJob(f"no such job: {', '.join(sorted(missing))}")
        refused = next((job for job in jobs if job.status not in MOVES[by]), None)
        if refused is not None:
            raise IllegalMove(f"job {refused.job_id} is {refused.status}; `{by}` does not apply to it")
    return jobs


def prune(tx: Transaction, before: datetime) -> dict[str, int]:
    """Forget the history of what ended before a time, and the jobs of videos that are gone.

    A finished job of a file that is still there keeps its row: without it the next scan would take the
    video for a new one.
    """
    old = [job_items.c.status.in_(list(FINISHED)), job_items.c.completed_at < before]
    gone = sa.not_(
        sa.exists().where(videos.c.path == sa.type_coerce(job_items.c.video_path, sa.Text), sa.not_(videos.c.offline))
    )
    forgotten = [as_job(row) for row in tx.connection.execute(locked(sa.select(job_items).where(*old, gone)))]
    ended = sa.select(job_items.c.job_id).where(*old)
    latest = sa.select(sa.func.max(state_transitions.c.id)).group_by(state_transitions.c.job_id)
    transitions = tx.connection.execute(
        sa.delete(state_transitions).where(
            state_transitions.c.timestamp < before,
            state_transitions.c.job_id.in_(ended),
            state_transitions.c.id.not_in(latest),
        )
    ).rowcount
    delete(tx, forgotten)
    ids = [job.job_id for job in forgotten]
    for table in (state_transitions, attempts):
        tx.connection.execute(sa.delete(table).where(table.c.job_id.in_(ids)))
    return {"jobs": len(forgotten), "transitions": transitions}


def clear(tx: Transaction, which: Which) -> int:
    """Remove jobs that are not running; their history stays."""
    query = sa.select(job_items).where(*which.conditions(), job_items.c.status != State.RUNNING)
    jobs = [as_job(row) for row in tx.connection.execute(locked(query))]
    delete(tx, jobs)
    return len(jobs)


def reset(tx: Transaction) -> None:
    """Forget everything."""
    for table in (job_items, state_transitions, attempts, job_counts, breakers, settings_snapshots, videos):
        tx.connection.execute(sa.delete(table))
