"""Claiming: how jobs get to a worker, under a lease."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest import breakers
from content_pipeline.manifest.breakers import Gate
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.jobs_part import JobsPart
from content_pipeline.manifest.lifecycle import CLAIMABLE, Move, State
from content_pipeline.manifest.model import ClaimRequest, Job
from content_pipeline.manifest.requirements import requires_one_of
from content_pipeline.manifest.schema import attempts, job_items
from content_pipeline.manifest.seen_roots import known_roots, seen_roots
from content_pipeline.manifest.statements import locked
from content_pipeline.manifest.storage_roots import MARK, roots_of
from content_pipeline.manifest.transitions import NO_LEASE, as_job, move


@retry_when_away
class ClaimJobs(JobsPart):
    """Getting jobs to a worker."""

    def due(self, request: ClaimRequest) -> list[Job]:
        """What this claim would take now. Changes nothing."""
        with self._database.transaction() as tx:
            return due(tx, request)

    def next_due(self) -> datetime | None:
        """When the first waiting job may be claimed."""
        with self._database.connect() as connection:
            return next_due(connection)

    def claim(self, request: ClaimRequest) -> list[Job]:
        with self._database.transaction() as tx:
            self._database.expect_compatible(tx.connection)
            return claim(tx, request, self._lease_s)


def claim(tx: Transaction, request: ClaimRequest, lease_s: float) -> list[Job]:
    """Take due jobs under a fresh lease, and count the attempt."""
    gate = breakers.gate(tx)
    lease = _lease_columns(tx, request, lease_s)
    due_here = _due(tx, request, gate, [can_be_done_here(tx.connection)], lock=True)
    claimed = [_claimed(job, lease, request) for job in due_here]
    if claimed:
        _write_claims(tx, claimed, lease)
        _begin_attempts(tx, claimed)
        gate.record_probes(tx, claimed)
    return [replace(job, status=State.RUNNING, updated_at=tx.now) for job in claimed]


def due(tx: Transaction, request: ClaimRequest) -> list[Job]:
    """The jobs that a claim would take now, here or on another host; they stay where they are."""
    return _due(tx, request, breakers.gate(tx), [], lock=False)


def next_due(connection: sa.Connection) -> datetime | None:
    query = sa.select(sa.func.min(job_items.c.available_at)).where(job_items.c.status.in_(list(CLAIMABLE)))
    return connection.execute(query).scalar()


def due_query(
    tx: Transaction, request: ClaimRequest, state: State, conditions: Sequence[sa.ColumnElement[bool]] = ()
) -> sa.Select[Any]:
    columns = job_items.c
    query = sa.select(job_items).where(columns.kind == request.kind, columns.status == state, *conditions)
    if not request.ignore_backoff:
        query = query.where(columns.available_at <= tx.now)
    if request.job_ids is not None:
        query = query.where(columns.job_id.in_(request.job_ids))
    if request.min_priority is not None:
        query = query.where(columns.priority >= request.min_priority)
    if request.requirements is not None:
        query = query.where(requires_one_of(request.requirements))
    return query.order_by(columns.priority.desc(), columns.available_at, columns.job_id)


def can_be_done_here(connection: sa.Connection) -> sa.ColumnElement[bool]:
    """A worker claims what it can see: below no root, or below one whose marker it has just read.

    The folder for the outputs counts, too. What it cannot see is left to others, and has not failed.
    """
    roots = roots_of(connection.dialect)
    seen = seen_roots(known_roots(connection), roots) if roots.folders else frozenset()
    return sa.and_(_is_seen(job_items.c.subject, seen), _output_is_seen(seen))


def _is_seen(path: sa.ColumnElement[Any], seen: Collection[str]) -> sa.ColumnElement[bool]:
    """Of a path as it is stored."""
    text = sa.cast(path, sa.Text)
    its = [sa.or_(text == MARK + name, text.startswith(f"{MARK}{name}/", autoescape=True)) for name in sorted(seen)]
    return sa.or_(sa.not_(text.startswith(MARK, autoescape=True)), *its)


def _output_is_seen(seen: Collection[str]) -> sa.ColumnElement[bool]:
    """Of the folder for the outputs, looked for in the text of the options.

    Postgres refuses to read a value out of JSON that has undecodable bytes of a file name anywhere.
    """
    text = sa.func.coalesce(sa.cast(job_items.c.options, sa.Text), "")
    at = f'"output_dir": "{MARK}'
    its = [text.contains(at + name + end, autoescape=True) for name in sorted(seen) for end in ('"', "/")]
    return sa.or_(sa.not_(text.contains(at, autoescape=True)), *its)


def _due(
    tx: Transaction, request: ClaimRequest, gate: Gate, here: Sequence[sa.ColumnElement[bool]], lock: bool
) -> list[Job]:
    """Each state is read in the order of its index, no further than needed; rows that others lock are skipped."""
    if request.number < 1 or gate.blocks_everything:
        return []
    found: dict[str, Job] = {}
    for state, (conditions, is_probe) in product(CLAIMABLE, gate.openings()):
        query = due_query(tx, request, state, [*conditions, *here]).limit(1 if is_probe else request.number)
        rows = tx.connection.execute(locked(query, skip=True) if lock else query)
        found.update((row.job_id, as_job(row)) for row in rows)
    in_order = sorted(found.values(), key=lambda job: (-job.priority, job.available_at, job.job_id))
    return gate.let_through(in_order)[: request.number]


def _lease_columns(tx: Transaction, request: ClaimRequest, lease_s: float) -> dict[str, Any]:
    return {
        **NO_LEASE,
        "lease_token": new_ulid(),
        "worker_id": request.worker_id,
        "run_id": request.run_id,
        "last_heartbeat": tx.now,
        "lease_expires_at": tx.now + timedelta(seconds=lease_s),
        "started_at": tx.now,
        "completed_at": None,
    }


def _claimed(job: Job, lease: dict[str, Any], request: ClaimRequest) -> Job:
    """The job as the claim leaves it, but for its state, which the move changes."""
    job = replace(job, **lease, claim_count=job.claim_count + 1, attempt_count=job.attempt_count + 1)
    return job if request.config_hash_of is None else replace(job, config_hash=request.config_hash_of(job))


def _write_claims(tx: Transaction, claimed: Sequence[Job], lease: dict[str, Any]) -> None:
    counted = {name: job_items.c[name] + 1 for name in ("claim_count", "attempt_count")}
    for config_hash in dict.fromkeys(job.config_hash for job in claimed):
        alike = [job for job in claimed if job.config_hash == config_hash]
        move(tx, alike, Move.CLAIM, "claimed", {**lease, **counted, "config_hash": config_hash})


def _begin_attempts(tx: Transaction, claimed: Sequence[Job]) -> None:
    rows: list[dict[str, Any]] = [
        {
            "job_id": job.job_id,
            "number": job.claim_count,
            "worker_id": job.worker_id,
            "run_id": job.run_id,
            "started_at": tx.now,
            "cost": {},
        }
        for job in claimed
    ]
    tx.connection.execute(sa.insert(attempts), rows)
