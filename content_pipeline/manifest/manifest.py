"""The manifest: every operation on jobs, each one transaction. The verbs live in modules of their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest import breakers, calibrations, reading, rescue
from content_pipeline.manifest import claim as claiming
from content_pipeline.manifest import enqueue as intake
from content_pipeline.manifest import operator_ops as steering
from content_pipeline.manifest import restore as restoring
from content_pipeline.manifest import worker_ops as working
from content_pipeline.manifest.breaker import Breaker
from content_pipeline.manifest.calibrations import Applied, Reset
from content_pipeline.manifest.check import Violation, check
from content_pipeline.manifest.database import Transaction, connected, database_now, transaction
from content_pipeline.manifest.database_retry import patient
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import (
    LEASE_S,
    Attempt,
    Job,
    JobKind,
    Lease,
    Renewal,
    Request,
    Result,
    Terms,
    Transition,
)
from content_pipeline.manifest.operator_ops import JobFilter
from content_pipeline.manifest.publications import Publications
from content_pipeline.manifest.restore import Remembered, Restored
from content_pipeline.manifest.retry import Decision
from content_pipeline.manifest.transitions import held, write_counts
from content_pipeline.settings.database_url import masked

ALL = JobFilter()


@patient
class Manifest:
    """`now` and `random` are given in tests; else the database's clock and chance."""

    def __init__(
        self,
        engine: sa.Engine,
        now: Callable[[], datetime] | None = None,
        random: Callable[[], float] = random.random,
        lease_s: float = LEASE_S,
    ) -> None:
        self.engine = self._engine = engine
        self._now = now
        self._random = random
        self._lease_s = lease_s

    @property
    def name(self) -> str:
        """The database as it is told to people: a path, or a URL without its password."""
        url = self.engine.url
        return str(url.database) if url.get_backend_name() == "sqlite" else masked(url.render_as_string())

    # --- work comes in, and into a worker's hands

    def enqueue(self, requests: Sequence[Request]) -> int:
        with self._transaction() as tx:
            return intake.enqueue(tx, requests)

    def claim(
        self,
        worker_id: str,
        number: int = 1,
        kind: JobKind = JobKind.PROCESSING,
        job_ids: Sequence[str] | None = None,
        hash_of: Callable[[Job], str | None] | None = None,
        now_due: bool = False,
    ) -> list[Job]:
        """`hash_of` gives the `config_hash` that a job is about to be made with."""
        with self._transaction() as tx:
            return claiming.claim(tx, worker_id, number, kind, self._lease_s, job_ids, hash_of, now_due)

    # --- what a worker says; all of it fenced

    def renew(self, worker_id: str, leases: Sequence[Lease]) -> Renewal:
        with self._transaction() as tx:
            return working.renew(tx, worker_id, leases, self._lease_s)

    def report_progress(self, lease: Lease, progress: dict[str, Any]) -> None:
        with self._transaction() as tx:
            working.report_progress(tx, lease, progress)

    def report_run(self, lease: Lease, run_id: str, video_key: str | None = None) -> None:
        with self._transaction() as tx:
            working.report_run(tx, lease, run_id, video_key)

    def publications(self, lease: Lease | None = None) -> Publications:
        """What is published; what a job publishes is recorded under its lease."""
        return Publications(self.engine, lease, self._lease_s, self._now)

    def succeed(self, lease: Lease, result: Result, claimed: Job | None = None) -> None:
        """`claimed`: the job as it was when the work began. Asked for on other terms since, it is dirty at once."""
        with self._transaction() as tx:
            working.succeed(tx, lease, result, claimed)

    def succeed_calibrating(self, lease: Lease, result: Result, applied: Applied | None) -> bool:
        """What a calibration found counts from the moment it succeeds, or not at all.

        False when it was to stop: then it is cancelled, for whoever asked was told that nothing would be applied.
        """
        with self._transaction() as tx:
            if held(tx, lease).cancel_requested:
                working.stop_cancelled(tx, lease)
                return False
            working.succeed(tx, lease, result)
            if applied is not None:
                calibrations.apply(tx, applied)
            return True

    def fail(
        self,
        lease: Lease,
        code: str,
        message: str,
        policy: RetryPolicy,
        stage: str | None = None,
        cost: dict[str, Any] | None = None,
    ) -> Decision:
        with self._transaction() as tx:
            return working.fail(tx, lease, code, message, policy, self._random, stage, cost)

    def crashed(self, lease: Lease, what_happened: str) -> None:
        """Its process died; said by the one who watched it."""
        with self._transaction() as tx:
            rescue.bring_back(tx, held(tx, lease), what_happened)

    def release(self, lease: Lease, reason: str) -> None:
        with self._transaction() as tx:
            working.release(tx, lease, reason)

    def stop_cancelled(self, lease: Lease) -> None:
        with self._transaction() as tx:
            working.stop_cancelled(tx, lease)

    # --- what people and plans say

    def cancel(self, job_filter: JobFilter = ALL) -> tuple[int, int]:
        with self._transaction() as tx:
            return steering.cancel(tx, job_filter)

    def discard(self, job_filter: JobFilter) -> int:
        with self._transaction() as tx:
            return steering.discard(tx, job_filter)

    def resume(self, job_filter: JobFilter = ALL) -> int:
        with self._transaction() as tx:
            return steering.resume(tx, job_filter)

    def retry(
        self, job_filter: JobFilter = ALL, reason: str = "retried by a person", priority: int | None = None
    ) -> int:
        with self._transaction() as tx:
            return steering.retry(tx, job_filter, reason, priority)

    def mark_dirty(self, job_filter: JobFilter, reason: str, priority: int | None = None) -> int:
        with self._transaction() as tx:
            return steering.mark_dirty(tx, job_filter, reason, priority)

    def ask_again(self, job_ids: Sequence[str], reason: str, terms: Terms) -> None:
        with self._transaction() as tx:
            steering.ask_again(tx, job_ids, reason, terms)

    def ask(self, request: Request, reason: str) -> Job:
        with self._transaction() as tx:
            return steering.ask(tx, request, reason)

    def ask_and_claim(self, request: Request, reason: str, worker_id: str) -> tuple[Job, Job | None]:
        """Ask for a subject and take its job, with nobody in between who could ask for something else.

        Returns the job as it was found, and as it was claimed: None while another works on it, or work is paused.
        """
        with self._transaction() as tx:
            found = steering.ask(tx, request, reason)
            mine = [found.job_id]
            claimed = claiming.claim(tx, worker_id, 1, request.kind, self._lease_s, mine, now_due=True)
            return found, claimed[0] if claimed else None

    def reset_calibration(self, library: str) -> Reset:
        """Go by the settings again: no calibration counts that was applied, waits or is being made."""
        with self._transaction() as tx:
            cancelled, asked_to_stop = steering.cancel(tx, JobFilter(kind=JobKind.CALIBRATION, library=library))
            return Reset(calibrations.forget(tx, library), cancelled, asked_to_stop)

    def prune(self, before: datetime, spared: Collection[str] = ()) -> dict[str, int]:
        """`spared`: files that are not there, and not gone either."""
        with self._transaction() as tx:
            return steering.prune(tx, before, spared)

    def clear(self, job_filter: JobFilter = ALL) -> int:
        with self._transaction() as tx:
            return steering.clear(tx, job_filter)

    def reset(self) -> None:
        with self._transaction() as tx:
            steering.reset(tx)

    def restore(self, remembered: Sequence[Remembered], recipes: Mapping[str, dict[str, Any]], reason: str) -> Restored:
        with self._transaction() as tx:
            return restoring.restore(tx, remembered, recipes, reason)

    def rescue(self, dead_workers: Collection[str] = ()) -> list[Job]:
        with self._transaction() as tx:
            return rescue.rescue(tx, dead_workers)

    def close_breakers(self) -> int:
        with self._transaction() as tx:
            return breakers.reset(tx)

    # --- looking

    def due(self, number: int, lowest_priority: int | None = None, kind: JobKind = JobKind.PROCESSING) -> list[Job]:
        """What a claim would take now, if it took so many. Changes nothing."""
        with self._transaction() as tx:
            return claiming.due(tx, number, kind, lowest_priority)

    def counts(self) -> dict[JobKind, dict[State, int]]:
        with connected(self.engine) as connection:
            return reading.counts(connection)

    def get(self, job_id: str) -> Job:
        with connected(self.engine) as connection:
            return reading.get(connection, job_id)

    def find(self, kind: JobKind, subject: str) -> Job | None:
        with connected(self.engine) as connection:
            return reading.find(connection, kind, subject)

    def list(self, job_filter: JobFilter = ALL, limit: int | None = None, offset: int = 0) -> list[Job]:
        with connected(self.engine) as connection:
            return reading.list_jobs(connection, job_filter, limit, offset)

    def history(self, job_id: str) -> Sequence[Transition]:
        with connected(self.engine) as connection:
            return reading.history(connection, job_id)

    def attempts(self, job_id: str) -> Sequence[Attempt]:
        with connected(self.engine) as connection:
            return reading.attempts_of(connection, job_id)

    def breakers(self) -> Sequence[Breaker]:
        with connected(self.engine) as connection:
            return breakers.read(connection)

    def workers(self) -> Sequence[str]:
        with connected(self.engine) as connection:
            return rescue.workers_of(connection)

    def is_leased(self, job_id: str, claim_number: int) -> bool:
        """Whether an attempt still has its lease. True of a job that is not known: it may be of another manifest."""
        with connected(self.engine) as connection:
            now = database_now(connection) if self._now is None else self._now()
            return rescue.is_leased(connection, job_id, claim_number, now)

    def overdue_workers(self) -> Sequence[str]:
        with connected(self.engine) as connection:
            now = database_now(connection) if self._now is None else self._now()
            return rescue.overdue_workers(connection, now)

    def stale(self, dead_workers: Collection[str] = ()) -> Sequence[Job]:
        """Running jobs whose worker is gone: what `rescue` would bring back. Changes nothing."""
        with connected(self.engine) as connection:
            now = database_now(connection) if self._now is None else self._now()
            return rescue.stale(connection, now, dead_workers)

    def check(self, digest_of: Callable[[str], str | None] | None = None) -> Sequence[Violation]:
        """What is wrong, if anything; `digest_of` gives the sha256 of an output, or None when it is not there."""
        return check(self.engine, digest_of)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with transaction(self.engine, None if self._now is None else self._now()) as tx:
            yield tx
            write_counts(tx)
