"""Restoring a manifest that was lost, from other records. Idempotent: it adds, and never overwrites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest import publications
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.lifecycle import Move, State, after
from content_pipeline.manifest.model import JobRequest, JobResult
from content_pipeline.manifest.publications import Publication
from content_pipeline.manifest.recipes import add_recipes
from content_pipeline.manifest.schema import PathText, job_items, state_transitions, videos
from content_pipeline.manifest.statements import clean, in_chunks, insert_for
from content_pipeline.manifest.storage_roots import StorageRoots, roots_of
from content_pipeline.manifest.transitions import SNIPPET_LENGTH, count
from content_pipeline.manifest.videos import KnownVideo, stored_signature


@dataclass(frozen=True)
class RecordedResult:
    """What was last made of a video, when, and by which run."""

    result: JobResult
    at: datetime
    run_id: str | None = None
    publications: Sequence[Publication] = ()


@dataclass(frozen=True)
class RecordedVideo:
    """A file as another record knows it; `made` is None when its video was not finished."""

    video: KnownVideo
    seen_at: datetime
    made: RecordedResult | None = None


@dataclass(frozen=True)
class RestoreCounts:
    """How many rows were added."""

    videos: int = 0
    jobs: int = 0


def restore(
    tx: Transaction, recorded: Sequence[RecordedVideo], recipes: Mapping[str, dict[str, Any]], reason: str
) -> RestoreCounts:
    """Add what is missing. Of several records of one path the first counts, so give the newest first.

    A job is added only along with its file: of a path that is known already the manifest knows better.
    """
    add_recipes(tx, recipes)
    roots = roots_of(tx.connection.dialect)
    by_path = {_stored(roots, one): one for one in reversed(recorded)}
    # In one order that all share, so that two who restore the same never deadlock.
    lost = [by_path[path] for path in sorted(by_path)]
    added, jobs = 0, 0
    for some in in_chunks(lost):
        paths = _add_videos(tx, some)
        done = [one for one in some if one.made is not None and _stored(roots, one) in paths]
        publications.restore(tx, [(file, one.made.at) for one in some if one.made for file in one.made.publications])
        added, jobs = added + len(paths), jobs + (_add_jobs(tx, done, reason) if done else 0)
    return RestoreCounts(added, jobs)


def _stored(roots: StorageRoots, one: RecordedVideo) -> str:
    return PathText.stored(roots.to_stored(str(one.video.path)))


def _add_videos(tx: Transaction, lost: Sequence[RecordedVideo]) -> set[str]:
    """Returns the paths that were unknown, as they are stored."""
    insert = insert_for(tx.connection, videos).on_conflict_do_nothing(index_elements=["path"])
    rows = [
        {
            "path": str(one.video.path),
            "root": str(one.video.root),
            "key": one.video.key,
            "signature": stored_signature(tx, one.video.path, one.video.signature),
            "quick": one.video.quick,
            "full": one.video.full,
            "first_seen": one.seen_at,
            "last_seen": one.seen_at,
        }
        for one in lost
    ]
    return set(tx.connection.execute(insert.returning(sa.type_coerce(videos.c.path, sa.Text)), rows).scalars())


def _add_jobs(tx: Transaction, lost: Sequence[RecordedVideo], reason: str) -> int:
    """Jobs that begin and end here; each with the line of history that says why. Returns how many are new."""
    rows = [row for one in lost if (row := _job(tx, one)) is not None]
    statement = insert_for(tx.connection, job_items).on_conflict_do_nothing(index_elements=["kind", "subject"])
    added = set(tx.connection.execute(statement.returning(job_items.c.job_id), rows).scalars())
    history = [_transition(tx, row, reason) for row in rows if row["job_id"] in added]
    if history:
        tx.connection.execute(sa.insert(state_transitions), history)
        count(tx, {(PROCESSING, history[0]["to_state"]): len(history)})
    return len(history)


def _job(tx: Transaction, one: RecordedVideo) -> dict[str, Any] | None:
    if one.made is None:
        return None
    request = JobRequest(str(one.video.path), str(one.video.root))
    return {
        "job_id": new_ulid(),
        "kind": request.kind,
        "library": request.library,
        "subject": request.subject,
        "status": after(Move.RESTORE, State.PENDING),
        "priority": request.priority,
        "claim_count": 0,
        "attempt_count": 0,
        "max_attempts": request.max_attempts,
        "crash_count": 0,
        "max_crashes": request.max_crashes,
        "available_at": tx.now,
        "created_at": tx.now,
        "updated_at": tx.now,
        "completed_at": one.made.at,
        "cancel_requested": False,
        "run_id": one.made.run_id,
        "metadata": {},
        **vars(one.made.result),  # not copied in depth: there may be 10,000
    }


def _transition(tx: Transaction, row: Mapping[str, Any], reason: str) -> dict[str, Any]:
    return {
        "job_id": row["job_id"],
        "attempt": row["claim_count"],
        "from_state": State.PENDING,
        "to_state": row["status"],
        "timestamp": tx.now,
        "run_id": row["run_id"],
        "reason": clean(reason, SNIPPET_LENGTH),
    }
