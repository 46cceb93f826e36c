"""Breakers in the database: which work waits, and who may try when a pause is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import sqlalchemy as sa

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest.breaker import Breaker
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.moves import CODE_LENGTH, ERROR_LENGTH, clean, insert_for, locked
from content_pipeline.manifest.schema import breakers as table
from content_pipeline.manifest.schema import job_items

EVERYTHING = "everything"
LIBRARY = "library:"
STAGE = "stage:"

# An unplugged drive stops its library; what else is wrong with the machine stops everything.
_OF_A_LIBRARY = {"library_offline"}


@dataclass(frozen=True)
class Gate:
    """What the breakers let through right now. `probing` scopes let one job through each."""

    everything_waits: bool = False
    paused_libraries: tuple[str, ...] = ()
    probing: tuple[Breaker, ...] = field(default=())

    def let_through(self, due: Sequence[Job]) -> list[Job]:
        """At most one job for each pause that is over and not yet proven so."""
        passed: list[Job] = []
        tried: set[str] = set()
        for job in due:
            scopes = {breaker.scope for breaker in self.probing if _covers(breaker, job)}
            if not scopes & tried:
                passed.append(job)
                tried |= scopes
        return passed

    def note_probes(self, tx: Transaction, claimed: Sequence[Job]) -> None:
        for breaker in self.probing:
            probe = next((job.job_id for job in claimed if _covers(breaker, job)), None)
            if probe is not None:
                _save(tx, replace(breaker, probe=probe))


def _covers(breaker: Breaker, job: Job) -> bool:
    return not breaker.scope.startswith(LIBRARY) or breaker.scope == LIBRARY + job.library


def gate(tx: Transaction) -> Gate:
    known = read(tx.connection)
    if any(breaker.is_half_open(tx.now) for breaker in known):
        # Kept from here on: of several workers that claim at this moment, one may try.
        known = read(tx.connection, keep=True)
    waiting = [breaker for breaker in known if breaker.is_open(tx.now) or _is_being_tried(tx, breaker)]
    return Gate(
        everything_waits=any(not breaker.scope.startswith(LIBRARY) for breaker in waiting),
        paused_libraries=tuple(
            breaker.scope.removeprefix(LIBRARY) for breaker in waiting if breaker.scope.startswith(LIBRARY)
        ),
        probing=tuple(breaker for breaker in known if breaker.is_half_open(tx.now) and breaker not in waiting),
    )


def _is_being_tried(tx: Transaction, breaker: Breaker) -> bool:
    if breaker.probe is None or not breaker.is_half_open(tx.now):
        return False
    status = tx.connection.execute(sa.select(job_items.c.status).where(job_items.c.job_id == breaker.probe)).scalar()
    return status == State.RUNNING


def read(connection: sa.Connection, keep: bool = False) -> list[Breaker]:
    query = sa.select(table).order_by(table.c.scope, table.c.error_code)
    rows = connection.execute(locked(query) if keep else query)
    return [Breaker(**row._mapping) for row in rows]


def note_failure(tx: Transaction, job: Job, policy: RetryPolicy, code: str, message: str, stage: str | None) -> None:
    """Permanent errors are a video's own; the others may be everybody's."""
    if policy is RetryPolicy.PERMANENT:
        return
    known = _kept(tx, _scope(job, policy, code, stage), clean(code, CODE_LENGTH))
    failed = known.failed(tx.now, clean(message, ERROR_LENGTH), at_once=policy is RetryPolicy.ENVIRONMENTAL)
    _save(tx, failed)


def _kept(tx: Transaction, scope: str, code: str) -> Breaker:
    """The breaker, made when there is none, and kept until this transaction ends: no failure goes uncounted."""
    fresh = insert_for(tx, table).values(**asdict(Breaker(scope, code)))
    upsert = fresh.on_conflict_do_update(
        index_elements=["scope", "error_code"], set_={"failures": table.c.failures}
    ).returning(table)
    return Breaker(**tx.connection.execute(upsert).one()._mapping)


def _scope(job: Job, policy: RetryPolicy, code: str, stage: str | None) -> str:
    if code in _OF_A_LIBRARY:
        return LIBRARY + job.library
    if policy is RetryPolicy.ENVIRONMENTAL:
        return EVERYTHING
    return LIBRARY + job.library if stage is None else STAGE + stage


def note_success(tx: Transaction, job: Job) -> None:
    """A success ends every row of failures it could have been part of, and the pause it was the probe of."""
    over = sa.or_(table.c.until.is_(None), table.c.until <= tx.now)
    for breaker in read(tx.connection):
        if _covers(breaker, job) and not breaker.is_open(tx.now):
            # Asked again in the statement: another worker may have opened it meanwhile.
            tx.connection.execute(
                sa.delete(table).where(table.c.scope == breaker.scope, table.c.error_code == breaker.error_code, over)
            )


def reset(tx: Transaction) -> int:
    return tx.connection.execute(sa.delete(table)).rowcount


def _save(tx: Transaction, breaker: Breaker) -> None:
    statement = insert_for(tx, table).values(**asdict(breaker))
    changed = {name: statement.excluded[name] for name in ("failures", "openings", "until", "probe", "message")}
    tx.connection.execute(statement.on_conflict_do_update(index_elements=["scope", "error_code"], set_=changed))
