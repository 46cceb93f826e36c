"""Forgetting what is old: history, and the jobs of videos that are gone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa

from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.lifecycle import FINISHED
from content_pipeline.manifest.schema import attempts, job_items, state_transitions, videos
from content_pipeline.manifest.statements import in_chunks
from content_pipeline.manifest.transitions import delete, lock_jobs


def prune(tx: Transaction, before: datetime, spared: Collection[str], video_kinds: Collection[str]) -> dict[str, int]:
    """Forget the history of what ended before a time, and the jobs of videos that are gone, but for spared files.

    A finished job of a file that is still there keeps its row: without it the next scan would take the
    video for a new one. So does a job whose subject is no video: only those of `video_kinds` are about a file.
    """
    old = [job_items.c.status.in_(list(FINISHED)), job_items.c.completed_at < before]
    seen = sa.exists().where(videos.c.path == job_items.c.subject, sa.not_(videos.c.offline))
    gone = [*old, job_items.c.kind.in_(list(video_kinds)), sa.not_(seen)]
    forgotten = transitions = 0
    for found in lock_jobs(tx, gone):
        jobs = [job for job in found if job.subject not in spared]
        delete(tx, jobs)
        transitions += _forget_history(tx, [job.job_id for job in jobs])
        forgotten += len(jobs)
    for found in lock_jobs(tx, old):
        transitions += _trim_history(tx, [job.job_id for job in found], before)
    transitions += _forget_history_of_cleared(tx, before)
    return {"jobs": forgotten, "transitions": transitions}


def _trim_history(tx: Transaction, ids: Sequence[str], before: datetime) -> int:
    """The last transition stays: it says how the job came to its state."""
    changes = state_transitions.c
    latest = sa.select(sa.func.max(changes.id)).where(changes.job_id.in_(ids)).group_by(changes.job_id)
    old = changes.job_id.in_(ids), changes.timestamp < before, changes.id.not_in(latest)
    return tx.connection.execute(sa.delete(state_transitions).where(*old)).rowcount


def _forget_history(tx: Transaction, ids: Sequence[str]) -> int:
    tx.connection.execute(sa.delete(attempts).where(attempts.c.job_id.in_(ids)))
    return tx.connection.execute(sa.delete(state_transitions).where(state_transitions.c.job_id.in_(ids))).rowcount


def _forget_history_of_cleared(tx: Transaction, before: datetime) -> int:
    """The history that jobs left behind when a person cleared them."""
    for_ever = sa.not_(sa.exists().where(job_items.c.job_id == state_transitions.c.job_id))
    gone = sa.select(state_transitions.c.job_id).where(for_ever).group_by(state_transitions.c.job_id)
    ids = tx.connection.execute(gone.having(sa.func.max(state_transitions.c.timestamp) < before)).scalars().all()
    return sum(_forget_history(tx, some) for some in in_chunks(ids))
