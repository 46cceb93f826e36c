"""The jobs of the manifest: all verbs put together, and reading. Every operation is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import UnknownJob
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest import staleness
from content_pipeline.manifest.claim import ClaimJobs
from content_pipeline.manifest.counts import read_counts
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.enqueue import EnqueueJobs
from content_pipeline.manifest.job_filter import ALL, JobFilter
from content_pipeline.manifest.lease import RenewLeases
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.model import (
    Attempt,
    Job,
    JobSummary,
    Transition,
)
from content_pipeline.manifest.operator_ops import OrderJobs
from content_pipeline.manifest.requirements import RequireOfWorkers
from content_pipeline.manifest.rescue import RescueJobs
from content_pipeline.manifest.schema import attempts, job_items, state_transitions
from content_pipeline.manifest.staleness import JobAge
from content_pipeline.manifest.statements import below, in_chunks
from content_pipeline.manifest.transitions import as_job
from content_pipeline.manifest.worker_ops import ReportJobs

ID_LENGTH = 26
RECENT_COSTS = 200
_STATES = {str(state): state for state in State}


@retry_when_away
class Jobs(EnqueueJobs, ClaimJobs, RenewLeases, ReportJobs, OrderJobs, RescueJobs, RequireOfWorkers):
    """Reading is here; each verb is with its class, in a file of its own."""

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
        return self._summaries(job_items.c.kind == kind, *below(job_items.c.subject, folder, self._database.roots))

    def summaries_at(self, paths: Sequence[Path], kind: str = PROCESSING) -> Sequence[JobSummary]:
        """Of the jobs about these files."""
        chunks = in_chunks([str(path) for path in paths])
        its = [self._summaries(job_items.c.kind == kind, job_items.c.subject.in_(some)) for some in chunks]
        return [summary for some in its for summary in some]

    def summaries_of_videos(self, keys: Collection[str], kind: str = PROCESSING) -> Sequence[JobSummary]:
        """Of the jobs about these videos."""
        chunks = in_chunks(sorted(keys))
        its = [self._summaries(job_items.c.kind == kind, job_items.c.video_key.in_(some)) for some in chunks]
        return [summary for some in its for summary in some]

    def waiting_with_priority(self, priority: int, kind: str = PROCESSING) -> Sequence[JobSummary]:
        """Of the jobs that wait with exactly this priority, due or not."""
        waiting = job_items.c.status.in_(list(CLAIMABLE))
        return self._summaries(job_items.c.kind == kind, waiting, job_items.c.priority == priority)

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

    def ages_under(self, folder: Path, kind: str = PROCESSING) -> dict[str, JobAge]:
        """When each job whose subject lies below a folder last succeeded, and since when it is dirty; by job id."""
        with self._database.connect() as connection:
            return staleness.ages_under(connection, folder, kind)

    def recent_costs(self) -> Sequence[dict[str, Any]]:
        """What the successful attempts of the latest jobs cost, stage by stage.

        Of attempts, not of jobs: a job's own cost is that of its last attempt, which may have reused everything.
        """
        succeeded = sa.select(attempts.c.cost).where(attempts.c.outcome == "succeeded")
        query = succeeded.order_by(attempts.c.job_id.desc(), attempts.c.number.desc()).limit(RECENT_COSTS)
        with self._database.connect() as connection:
            return connection.execute(query).scalars().all()


def _page(connection: sa.Connection, job_filter: JobFilter, limit: int | None = None, offset: int = 0) -> list[Job]:
    query = sa.select(job_items).where(*job_filter.conditions()).order_by(job_items.c.job_id)
    return [as_job(row) for row in connection.execute(query.limit(limit).offset(offset))]


def _transition(row: sa.Row[Any]) -> Transition:
    values = dict(row._mapping)
    return Transition(**{**values, "from_state": State(values["from_state"]), "to_state": State(values["to_state"])})
