"""Who works on this manifest: a row for each worker process, idle ones too, kept up by its heartbeats.

For people to look at. What happens to a job is decided by its lease alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from content_pipeline.manifest.database import Database
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.schema import workers
from content_pipeline.manifest.statements import insert_for

KEPT = timedelta(days=1)  # how long one that fell silent is remembered


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker says of itself. `role`: what started it. `slots`: how many jobs it does at once.

    `capabilities`: what jobs may require of it.
    """

    worker_id: str
    host: str
    pid: int
    version: str
    role: str
    slots: int
    lease_s: float
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerRow:
    info: WorkerInfo
    started_at: datetime
    last_heartbeat: datetime

    def is_silent(self, now: datetime) -> bool:
        """For longer than its leases last: others have its jobs by now."""
        return now - self.last_heartbeat > timedelta(seconds=self.info.lease_s)


@retry_when_away
class Workers:
    def __init__(self, database: Database) -> None:
        self._database = database

    def beat(self, info: WorkerInfo) -> None:
        """Say that it lives; the first time adds it."""
        with self._database.transaction() as tx:
            known = {**asdict(info), "last_heartbeat": tx.now}
            insert = insert_for(tx.connection, workers).values(**known, started_at=tx.now)
            tx.connection.execute(insert.on_conflict_do_update(index_elements=["worker_id"], set_=known))

    def remove(self, worker_ids: Collection[str]) -> None:
        """Those that ended; and with them whoever fell silent long ago."""
        with self._database.transaction() as tx:
            ended = workers.c.worker_id.in_(list(worker_ids)), workers.c.last_heartbeat < tx.now - KEPT
            tx.connection.execute(sa.delete(workers).where(sa.or_(*ended)))

    def all(self) -> list[WorkerRow]:
        """By host, the oldest first."""
        query = sa.select(workers).order_by(workers.c.host, workers.c.started_at, workers.c.worker_id)
        with self._database.connect() as connection:
            return [_row(row) for row in connection.execute(query).mappings()]

    def now(self) -> datetime:
        """The database's clock, by which leases end and workers fall silent."""
        with self._database.connect() as connection:
            return self._database.now(connection)


def _row(row: sa.RowMapping) -> WorkerRow:
    known = dict(row)
    started_at, last_heartbeat = known.pop("started_at"), known.pop("last_heartbeat")
    capabilities = known.pop("capabilities")  # nothing from a worker of an earlier version
    return WorkerRow(WorkerInfo(**known, capabilities=tuple(capabilities or ())), started_at, last_heartbeat)
