"""The jobs of the manifest: every operation is one transaction. Each verb lives in a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import UnknownJob
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest import claim as claims
from content_pipeline.manifest import enqueue as enqueueing
from content_pipeline.manifest import lease as lease_ops
from content_pipeline.manifest import operator_ops, rescue, worker_ops
from content_pipeline.manifest.counts import read_counts
from content_pipeline.manifest.database import Database
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lease import fenced_job
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import (
    Attempt,
    ClaimRequest,
    Job,
    JobFailure,
    JobRequest,
    JobResult,
    JobSummary,
    JobTerms,
    Lease,
    Renewal,
    Transition,
)
from content_pipeline.manifest.retry_policy import RetryDecision
from content_pipeline.manifest.schema import attempts, job_items, state_transitions
from content_pipeline.manifest.statements import below, in_chunks
from content_pipeline.manifest.transitions import as_job

ALL = JobFilter()
ID_LENGTH = 26
RECENT_COSTS = 50
_STATES = {str(state): state for state in State}


@retry_when_away
class Jobs:
    """`random` gives numbers in [0, 1) for the back-off; a lease lasts for `lease_s`."""

    def __init__(self, database: Database, random: Callable[[], float], lease_s: float) -> None:
        self._database = database
        self._random = random
        self._lease_s = lease_s

    # --- enqueue and claim

    def enqueue(self, requests: Sequence[JobRequest]) -> int:
        with self._database.transaction() as tx:
            return enqueueing.enqueue(tx, requests)

    def due(self, request: ClaimRequest) -> list[Job]:
        """What this claim would take now. Changes nothing."""
        with self._database.transaction() as tx:
            return claims.due(tx, request)

    def next_due(self) -> datetime | None:
        """When the first waiting job may be claimed."""
        with self._database.connect() as connection:
            return claims.next_due(connection)

    def claim(self, request: ClaimRequest) -> list[Job]:
        with self._database.transaction() as tx:
            return claims.claim(tx, request, self._lease_s)

    def ask(self, request: JobRequest, reason: str) -> Job:
        with self._database.transaction() as tx:
            return operator_ops.ask(tx, request, reason)

    def ask_again(self, job_ids: Sequence[str], reason: str, terms: JobTerms) -> None:
        with self._database.transaction() as tx:
            operator_ops.ask_again(tx, job_ids, reason, terms)

    def ask_and_claim(self, request: JobRequest, reason: str, worker_id: str) -> tuple[Job, Job | None]:
        """Ask for a subject and claim its job, atomically: nobody in between can ask for something else.

        Returns the job as it was found, and as it was claimed: None while another works on it, or work is paused.
        """
        with self._database.transaction() as tx:
            found = operator_ops.ask(tx, request, reason)
            its = ClaimRequest(worker_id, kind=request.kind, job_ids=[found.job_id], ignore_backoff=True)
            claimed = claims.claim(tx, its, self._lease_s)
            return found, claimed[0] if claimed else None

    # --- what a worker reports; all of it fenced

    def renew(self, worker_id: str, leases: Sequence[Lease]) -> Renewal:
        with self._database.transaction() as tx:
            return lease_ops.renew(tx, worker_id, leases, self._lease_s)

    def report_progress(self, lease: Lease, progress: dict[str, Any]) -> None:
        with self._database.transaction() as tx:
            worker_ops.report_progress(tx, lease, progress)

    def report_run(self, lease: Lease, run_id: str, video_key: str | None = None) -> None:
        with self._database.transaction() as tx:
            worker_ops.report_run(tx, lease, run_id, video_key)

    def succeed(self, lease: Lease, result: JobResult, claimed: Job | None = None) -> None:
        """`claimed`: the job as it was when the work began. Asked for on other terms since, it is dirty at once."""
        with self._database.transaction() as tx:
            worker_ops.succeed(tx, lease, result, claimed)

    def fail(self, lease: Lease, failure: JobFailure) -> RetryDecision:
        with self._database.transaction() as tx:
            return worker_ops.fail(tx, lease, failure, self._random)

    def crashed(self, lease: Lease, what_happened: str) -> None:
        """Its process died; said by the one who watched it."""
        with self._database.transaction() as tx:
            rescue.bring_back(tx, fenced_job(tx, lease), what_happened)

    def release(self, lease: Lease, reason: str) -> None:
        with self._database.transaction() as tx:
            worker_ops.release(tx, lease, reason)

    def stop_cancelled(self, lease: Lease) -> None:
        with self._database.transaction() as tx:
            worker_ops.stop_cancelled(tx, lease)

    # --- what people and plans order

    def cancel(self, job_filter: JobFilter = ALL) -> tuple[int, int]:
        with self._database.transaction() as tx:
            return operator_ops.cancel(tx, job_filter)

    def discard(self, job_filter: JobFilter) -> int:
        with self._database.transaction() as tx:
            return operator_ops.discard(tx, job_filter)

    def resume(self, job_filter: JobFilter = ALL) -> int:
        with self._database.transaction() as tx:
            return operator_ops.resume(tx, job_filter)

    def retry(
        self, job_filter: JobFilter = ALL, reason: str = "retried by a person", priority: int | None = None
    ) -> int:
        with self._database.transaction() as tx:
            return operator_ops.retry(tx, job_filter, reason, priority)

    def mark_dirty(self, job_filter: JobFilter, reason: str, priority: int | None = None) -> int:
        with self._database.transaction() as tx:
            return operator_ops.mark_dirty(tx, job_filter, reason, priority)

    def clear(self, job_filter: JobFilter = ALL) -> int:
        with self._database.transaction() as tx:
            return operator_ops.clear(tx, job_filter)

    # --- orphans and workers

    def rescue(self, dead_workers: Collection[str] = ()) -> list[Job]:
        with self._database.transaction() as tx:
            return rescue.rescue(tx, dead_workers)

    def stale(self, dead_workers: Collection[str] = ()) -> Sequence[Job]:
        """Running jobs whose worker is gone: what `rescue` would bring back. Changes nothing."""
        with self._database.connect() as connection:
            return rescue.stale(connection, self._database.now(connection), dead_workers)

    def workers(self) -> Sequence[str]:
        with self._database.connect() as connection:
            return rescue.workers_of(connection)

    def overdue_workers(self) -> Sequence[str]:
        with self._database.connect() as connection:
            return rescue.overdue_workers(connection, self._database.now(connection))

    def is_leased(self, job_id: str, claim_number: int) -> bool:
        """Whether an attempt still has its lease. True of a job that is not known: it may be of another manifest."""
        with self._database.connect() as connection:
            return rescue.is_leased(connection, job_id, claim_number, self._database.now(connection))

    # --- reading

    def get(self, job_id: str) -> Job:
        """By its id, or the beginning of it when that is clear."""
        wanted = job_id.upper()
        # A whole id is found by the index; a beginning is typed by a person, who can wait for a scan.
        whole = job_items.c.job_id == wanted
        matches = whole if len(wanted) == ID_LENGTH else job_items.c.job_id.startswith(wanted, autoescape=True)
        with self._database.connect() as connection:
            rows = connection.execute(sa.select(job_items).where(matches).limit(2)).all() if wanted else []
        if len(rows) != 1:
            raise UnknownJob(f"{'more than one job' if rows else 'no job'} starts with {job_id!r}")
        return as_job(rows[0])

    def find(self, kind: str, subject: str) -> Job | None:
        query = sa.select(job_items).where(job_items.c.kind == kind, job_items.c.subject == subject)
        with self._database.connect() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else as_job(row)

    def list(self, job_filter: JobFilter = ALL, limit: int | None = None, offset: int = 0) -> list[Job]:
        with self._database.connect() as connection:
            if job_filter.job_ids is None:
                return _page(connection, job_filter, limit, offset)
            named = [replace(job_filter, job_ids=ids) for ids in in_chunks(sorted(set(job_filter.job_ids)))]
            found = [job for some in named for job in _page(connection, some)]
            return found[offset:] if limit is None else found[offset : offset + limit]

    def summaries_under(self, folder: Path, kind: str = PROCESSING) -> Sequence[JobSummary]:
        """Of every job whose subject lies below a folder."""
        return self._summaries(job_items.c.kind == kind, *below(job_items.c.subject, folder))

    def summaries_at(self, paths: Sequence[Path], kind: str = PROCESSING) -> Sequence[JobSummary]:
        """Of the jobs about these files."""
        chunks = in_chunks([str(path) for path in paths])
        its = [self._summaries(job_items.c.kind == kind, job_items.c.subject.in_(some)) for some in chunks]
        return [summary for some in its for summary in some]

    def _summaries(self, *conditions: sa.ColumnElement[bool]) -> Sequence[JobSummary]:
        query = sa.select(*(job_items.c[name] for name in JobSummary._fields)).where(*conditions)
        with self._database.connect() as connection:
            return [JobSummary(*row)._replace(status=_STATES[row.status]) for row in connection.execute(query)]

    def counts(self, kind: str = PROCESSING) -> dict[State, int]:
        """How many jobs of a kind are in each state; zeros included."""
        return self.counts_by_kind().get(kind, dict.fromkeys(State, 0))

    def counts_by_kind(self) -> dict[str, dict[State, int]]:
        """The same of every kind that was ever used, also by another version of the program."""
        with self._database.connect() as connection:
            return read_counts(connection)

    def history(self, job_id: str) -> Sequence[Transition]:
        changes = state_transitions.c
        query = sa.select(state_transitions).where(changes.job_id == job_id).order_by(changes.id)
        with self._database.connect() as connection:
            return [_transition(row) for row in connection.execute(query)]

    def attempts(self, job_id: str) -> Sequence[Attempt]:
        query = sa.select(attempts).where(attempts.c.job_id == job_id).order_by(attempts.c.number)
        with self._database.connect() as connection:
            return [Attempt(**row._mapping) for row in connection.execute(query)]

    def recent_costs(self) -> Sequence[dict[str, Any]]:
        """What the last successes cost, stage by stage."""
        succeeded = sa.select(job_items.c.cost).where(job_items.c.status == State.SUCCEEDED)
        query = succeeded.order_by(job_items.c.job_id.desc()).limit(RECENT_COSTS)
        with self._database.connect() as connection:
            return connection.execute(query).scalars().all()


def _page(connection: sa.Connection, job_filter: JobFilter, limit: int | None = None, offset: int = 0) -> list[Job]:
    query = sa.select(job_items).where(*job_filter.conditions()).order_by(job_items.c.job_id)
    return [as_job(row) for row in connection.execute(query.limit(limit).offset(offset))]


def _transition(row: sa.Row[Any]) -> Transition:
    values = dict(row._mapping)
    return Transition(**{**values, "from_state": State(values["from_state"]), "to_state": State(values["to_state"])})
