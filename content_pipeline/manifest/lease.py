"""Leases: a worker's time-limited right to a job, its renewal, and the fence that makes a late write change nothing.

A lease is lost when another claim has been made, or the job is no longer running. Who takes an expired one away is in
`rescue.py`; a new one is made in `claim.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from content_pipeline.errors import LostLease
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.jobs_part import JobsPart
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Job, Lease, Renewal
from content_pipeline.manifest.schema import job_items
from content_pipeline.manifest.statements import in_chunks, locked
from content_pipeline.manifest.transitions import as_job


@retry_when_away
class RenewLeases(JobsPart):
    """Keeping jobs for the worker that has them."""

    def renew(self, worker_id: str, leases: Sequence[Lease]) -> Renewal:
        with self._database.transaction() as tx:
            return renew(tx, worker_id, leases, self._lease_s)


def fenced_job(tx: Transaction, lease: Lease) -> Job:
    """The job's row, locked, if the lease still holds: the fence that every write of a worker passes."""
    row = tx.connection.execute(locked(sa.select(job_items).where(*_fence(lease)))).one_or_none()
    if row is None:
        raise LostLease(f"the lease on job {lease.job_id} is gone (claim {lease.claim_number})")
    return as_job(row)


def _fence(lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        job_items.c.job_id == lease.job_id,
        job_items.c.claim_count == lease.claim_number,
        job_items.c.lease_token == lease.token,
        job_items.c.status == State.RUNNING,
    )


def renew(tx: Transaction, worker_id: str, leases: Sequence[Lease], lease_s: float) -> Renewal:
    """All of a worker's leases in one statement; a job it was given and knows nothing of is left to the rescue."""
    fence = {(lease.job_id, lease.claim_number, lease.token) for lease in leases}
    returned = [
        row for some in in_chunks(leases) for row in tx.connection.execute(_renewal(tx, worker_id, some, lease_s))
    ]
    alive = {(row.job_id, row.claim_count, row.lease_token) for row in returned}
    return Renewal(
        lost=frozenset(job_id for job_id, _, _ in fence - alive),
        cancelled=frozenset(row.job_id for row in returned if row.cancel_requested),
    )


def _renewal(tx: Transaction, worker_id: str, leases: Sequence[Lease], lease_s: float) -> sa.UpdateBase:
    columns = job_items.c
    # Locked in the order of their ids, like every operation on many jobs, so that there is no deadlock.
    mine = locked(
        sa.select(columns.job_id)
        .where(
            columns.job_id.in_([lease.job_id for lease in leases]),
            columns.lease_token.in_({lease.token for lease in leases}),
            columns.worker_id == worker_id,
            columns.status == State.RUNNING,
        )
        .order_by(columns.job_id)
    )
    return (
        sa.update(job_items)
        .where(columns.job_id.in_(mine))
        .values(last_heartbeat=tx.now, lease_expires_at=tx.now + timedelta(seconds=lease_s))
        .returning(columns.job_id, columns.claim_count, columns.lease_token, columns.cancel_requested)
    )
