"""Breakers in the database: which work waits, and who may try when a pause is over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import sqlalchemy as sa

from content_pipeline.errors import ReadFailed, RetryPolicy
from content_pipeline.manifest.breaker import EVERYTHING, LIBRARY, OFFLINE, STAGE, Breaker
from content_pipeline.manifest.database import Database, Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.model import Job, JobFailure
from content_pipeline.manifest.schema import breakers as table
from content_pipeline.manifest.schema import job_items
from content_pipeline.manifest.statements import clean, insert_for, locked
from content_pipeline.manifest.transitions import CODE_LENGTH, ERROR_LENGTH

# A drive that is unplugged or cannot be read says nothing of other libraries.
_OF_A_LIBRARY = {OFFLINE, ReadFailed.code}


@retry_when_away
class Breakers:
    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> Sequence[Breaker]:
        with self._database.connect() as connection:
            return _read(connection)

    def close(self) -> int:
        """Close all of them: work goes on at once. Returns how many there were.

        Whoever met an error of the environment waits as long as its pause; with the pause that wait ends, too.
        """
        with self._database.transaction() as tx:
            for breaker in _read(tx.connection):
                if breaker.affects_everything:
                    _end_wait(tx, breaker)
            return tx.connection.execute(sa.delete(table)).rowcount


@dataclass(frozen=True)
class Gate:
    """What the breakers let through right now: all that none of them holds up, and one job for each in `probing`."""

    waiting: tuple[Breaker, ...] = ()
    probing: tuple[Breaker, ...] = ()

    @property
    def blocks_everything(self) -> bool:
        return any(breaker.scope == EVERYTHING for breaker in self.waiting)

    def openings(self) -> Iterator[tuple[list[sa.ColumnElement[bool]], bool]]:
        """Which jobs to look at, and whether one of them is enough. Who failed never hides who did not."""
        yield [sa.not_(_blocked_by(breaker)) for breaker in (*self.waiting, *self.probing)], False
        for breaker in self.probing:
            yield [_blocked_by(breaker), *(sa.not_(_blocked_by(other)) for other in self.waiting)], True

    def let_through(self, due: Sequence[Job]) -> list[Job]:
        """At most one job for each pause that is over and not yet proven so."""
        passed: list[Job] = []
        tried: set[Breaker] = set()
        for job in due:
            pauses = {breaker for breaker in self.probing if breaker.blocks(job.library, job.error_code)}
            if not pauses & tried:
                passed.append(job)
                tried |= pauses
        return passed

    def record_probes(self, tx: Transaction, claimed: Sequence[Job]) -> None:
        for breaker in self.probing:
            probe = next((job.job_id for job in claimed if breaker.blocks(job.library, job.error_code)), None)
            if probe is not None:
                _save(tx, replace(breaker, probe=probe))


def _blocked_by(breaker: Breaker) -> sa.ColumnElement[bool]:
    """`Breaker.holds_up` for the database."""
    of_library = sa.true() if breaker.library is None else job_items.c.library == breaker.library
    if breaker.affects_everything:
        return of_library
    # Without the first condition a job without an error gives NULL, whose negation is NULL again.
    return sa.and_(of_library, job_items.c.error_code.is_not(None), job_items.c.error_code == breaker.error_code)


def _end_wait(tx: Transaction, breaker: Breaker) -> None:
    columns = job_items.c
    waiting = sa.select(columns.job_id).where(
        _blocked_by(breaker),
        columns.error_code == breaker.error_code,
        columns.status.in_(list(CLAIMABLE)),
        columns.available_at > tx.now,
    )
    ordered = locked(waiting.order_by(columns.job_id))  # like everybody who changes many jobs
    tx.connection.execute(sa.update(job_items).where(columns.job_id.in_(ordered)).values(available_at=tx.now))


def gate(tx: Transaction) -> Gate:
    known = _read(tx.connection)
    if any(breaker.is_half_open(tx.now) for breaker in known):
        # Locked from here on: of several workers that claim at this moment, one may try.
        known = _read(tx.connection, lock=True)
    waiting = [breaker for breaker in known if breaker.is_open(tx.now) or _is_being_probed(tx, breaker)]
    probing = [breaker for breaker in known if breaker.is_half_open(tx.now) and breaker not in waiting]
    return Gate(tuple(waiting), tuple(probing))


def _is_being_probed(tx: Transaction, breaker: Breaker) -> bool:
    if breaker.probe is None or not breaker.is_half_open(tx.now):
        return False
    status = tx.connection.execute(sa.select(job_items.c.status).where(job_items.c.job_id == breaker.probe)).scalar()
    return status == State.RUNNING


def _read(connection: sa.Connection, lock: bool = False) -> list[Breaker]:
    query = sa.select(table).order_by(table.c.scope, table.c.error_code)
    rows = connection.execute(locked(query) if lock else query)
    return [Breaker(**row._mapping) for row in rows]


def record_failure(tx: Transaction, job: Job, failure: JobFailure) -> None:
    """Permanent errors are a video's own; the others may be everybody's."""
    if failure.policy is RetryPolicy.PERMANENT:
        return
    known = _locked_breaker(tx, _scope(job, failure), clean(failure.code, CODE_LENGTH))
    _save(tx, known.failed(tx.now, clean(failure.message, ERROR_LENGTH), again=job.error_code == known.error_code))


def _locked_breaker(tx: Transaction, scope: str, code: str) -> Breaker:
    """The breaker, inserted when there is none, and locked until this transaction ends: no failure is missed."""
    fresh = insert_for(tx.connection, table).values(**asdict(Breaker(scope, code)))
    upsert = fresh.on_conflict_do_update(
        index_elements=["scope", "error_code"], set_={"failures": table.c.failures}
    ).returning(table)
    return Breaker(**tx.connection.execute(upsert).one()._mapping)


def _scope(job: Job, failure: JobFailure) -> str:
    if failure.code in _OF_A_LIBRARY:
        return LIBRARY + job.library
    if failure.policy is RetryPolicy.ENVIRONMENTAL:
        return EVERYTHING
    return LIBRARY + job.library if failure.stage is None else STAGE + failure.stage


def record_success(tx: Transaction, job: Job, computed: Collection[str]) -> None:
    """A success ends every row of failures it could have been part of, and the pauses it proves needless."""
    over = sa.or_(table.c.until.is_(None), table.c.until <= tx.now)
    for breaker in _read(tx.connection):
        if breaker.is_ended_by(job.job_id, job.library, computed, tx.now):
            this = [table.c.scope == breaker.scope, table.c.error_code == breaker.error_code]
            # Asked again in the statement: another worker may have opened it meanwhile.
            tx.connection.execute(sa.delete(table).where(*this, *([over] if breaker.affects_everything else [])))


def _save(tx: Transaction, breaker: Breaker) -> None:
    statement = insert_for(tx.connection, table).values(**asdict(breaker))
    changed = {name: statement.excluded[name] for name in ("failures", "openings", "until", "probe", "message")}
    tx.connection.execute(statement.on_conflict_do_update(index_elements=["scope", "error_code"], set_=changed))
