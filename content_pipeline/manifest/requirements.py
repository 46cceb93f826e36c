"""What jobs require of their worker, and which of it no worker has: a capability is a name that a host was given.

A job requires one capability or none. A worker claims what requires nothing, and what requires one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import sqlalchemy as sa

from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.jobs_part import JobsPart
from content_pipeline.manifest.lifecycle import CLAIMABLE
from content_pipeline.manifest.schema import job_items
from content_pipeline.manifest.workers import WorkerRow


@retry_when_away
class RequireOfWorkers(JobsPart):
    """What waits for a worker that can do it."""

    def waiting_requirements(self) -> dict[str, int]:
        """How many jobs wait that require each capability."""
        columns = job_items.c
        query = (
            sa.select(columns.requires, sa.func.count())
            .where(columns.requires.is_not(None), columns.status.in_(list(CLAIMABLE)))
            .group_by(columns.requires)
            .order_by(columns.requires)
        )
        with self._database.connect() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}


def met_by(capabilities: Iterable[str]) -> frozenset[str | None]:
    """The requirements that a worker with these capabilities meets."""
    return frozenset([None, *capabilities])


def requires_one_of(requirements: frozenset[str | None]) -> sa.ColumnElement[bool]:
    requires = job_items.c.requires
    named = requires.in_(sorted(one for one in requirements if one is not None))
    return sa.or_(requires.is_(None), named) if None in requirements else named


def capabilities_of(workers: Iterable[WorkerRow], now: datetime, role: str | None = None) -> frozenset[str]:
    """What those can do together that speak; of one role, or of all."""
    heard = (row.info for row in workers if not row.is_silent(now))
    return frozenset(name for info in heard if role in (None, info.role) for name in info.capabilities)


def unmet(waiting: Mapping[str, int], capabilities: frozenset[str]) -> dict[str, int]:
    """What waits for a capability that nobody has."""
    return {name: number for name, number in waiting.items() if name not in capabilities}
