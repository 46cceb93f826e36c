"""Whether the manifest is sound: what must hold of every job, at any moment, however its workers ended.

Read in one snapshot, so that it can be asked of a database at work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.database import Database
from content_pipeline.manifest.lifecycle import CLAIMABLE, FINISHED, State, is_legal
from content_pipeline.manifest.retry_policy import PAUSE_S, backoff_s
from content_pipeline.manifest.schema import attempts, job_counts, job_items, publications, state_transitions

ROWS_AT_A_TIME = 1000


class Invariant(StrEnum):
    CHAIN = "chain"  # its transitions are legal, follow from each other and end in its status
    CLAIMS = "claims"  # claims, attempts and the fence number agree
    LEASE = "lease"  # a running job has a lease and one open attempt, any other job neither
    BUDGET = "budget"  # no more attempts and crashes than allowed
    BACKOFF = "backoff"  # after an error it waits as long as it should, and no longer
    ENDED = "ended"  # what is finished says since when
    OUTPUTS = "outputs"  # what it made is there, as it was made
    COUNTS = "counts"  # the kept counts are the true ones


@dataclass(frozen=True)
class Violation:
    invariant: Invariant
    job_id: str | None
    detail: str


def check(database: Database, digest_of: Callable[[str], str | None] | None = None) -> list[Violation]:
    """All that is wrong. `digest_of` gives the sha256 of an output, or None when it is not there."""
    with database.snapshot() as connection:
        jobs = {row.job_id: row for row in _rows(connection, _JOBS)}
        histories = _by_job(connection, _TRANSITIONS)
        tries = _by_job(connection, _ATTEMPTS)
        found = [*_history_violations(jobs, histories), *_attempt_violations(jobs, tries)]
        found += [violation for job in jobs.values() for violation in _job_violations(job)]
        found += _count_violations(connection, jobs.values())
        made = [] if digest_of is None else _published(connection)
    # Files are read after the snapshot: hashing takes its time, and nobody should wait for it.
    if digest_of is not None:
        found += [violation for one in made for violation in _output_violations(one, digest_of)]
    return found


_columns = job_items.c
_JOBS = sa.select(
    _columns.job_id,
    _columns.kind,
    _columns.status,
    _columns.claim_count,
    _columns.attempt_count,
    _columns.max_attempts,
    _columns.crash_count,
    _columns.max_crashes,
    _columns.available_at,
    _columns.completed_at,
    _columns.lease_token,
    _columns.worker_id,
    _columns.last_heartbeat,
    _columns.lease_expires_at,
)
_OUTPUTS = sa.select(_columns.job_id, _columns.output_files, _columns.output_hashes).where(
    _columns.status == State.SUCCEEDED
)
_PUBLICATIONS = sa.select(
    publications.c.path,
    publications.c.job_id,
    publications.c.sha256,
    publications.c.replaces,
    publications.c.kept,
).order_by(publications.c.place)
_TRANSITIONS = sa.select(
    state_transitions.c.job_id,
    state_transitions.c.attempt,
    state_transitions.c.from_state,
    state_transitions.c.to_state,
).order_by(state_transitions.c.job_id, state_transitions.c.id)
_ATTEMPTS = sa.select(attempts.c.job_id, attempts.c.number, attempts.c.ended_at, attempts.c.outcome).order_by(
    attempts.c.job_id, attempts.c.number
)

Row = sa.Row[Any]
Histories = Iterable[tuple[str, Sequence[Row]]]


def _rows(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Row]:
    yield from connection.execution_options(yield_per=ROWS_AT_A_TIME).execute(query)


def _by_job(connection: sa.Connection, query: sa.Select[Any]) -> Histories:
    for job_id, rows in groupby(_rows(connection, query), key=lambda row: row.job_id):
        yield job_id, list(rows)


def _history_violations(jobs: dict[str, Row], histories: Histories) -> Iterator[Violation]:
    moved = set()
    for job_id, history in histories:
        job = jobs.get(job_id)
        moved.add(job_id)
        status = None if job is None else job.status
        yield from (Violation(Invariant.CHAIN, job_id, detail) for detail in _broken_links(history, status))
        if job is not None:
            # Before the first transition that is left there may have been claims, since pruned.
            seen = sum(row.to_state == State.RUNNING for row in history)
            before = history[0].attempt - int(history[0].to_state == State.RUNNING)
            if before + seen != job.claim_count:
                detail = f"{before} + {seen} claims in its history, and its number is {job.claim_count}"
                yield Violation(Invariant.CLAIMS, job_id, detail)
    for job_id, job in jobs.items():
        if job_id not in moved and (job.status != State.PENDING or job.claim_count):
            yield Violation(Invariant.CHAIN, job_id, f"is {job.status} after {job.claim_count} claims, with no history")


def _broken_links(history: Sequence[Row], status: str | None) -> Iterator[str]:
    """A job that was cleared has no status any more: its history may end in any state but a running one."""
    for row in history:
        if not is_legal(State(row.from_state), State(row.to_state)):
            yield f"{row.from_state} -> {row.to_state} is not a legal change of state"
    for row, following in pairwise(history):
        if row.to_state != following.from_state:
            yield f"was {row.to_state}, and then moved from {following.from_state}"
        if row.attempt > following.attempt:
            yield f"attempt {following.attempt} came after attempt {row.attempt}"
    if status is not None and history[-1].to_state != status:
        yield f"is {status}, and its history ends in {history[-1].to_state}"


def _attempt_violations(jobs: dict[str, Row], tries: Histories) -> Iterator[Violation]:
    numbers: dict[str, list[int]] = {}
    for job_id, rows in tries:
        job = jobs.get(job_id)
        if job is None:
            continue
        numbers[job_id] = [row.number for row in rows]
        yield from _open_attempt_violations(job, [row.number for row in rows if row.ended_at is None])
        yield from _backoff_violations(job, rows[-1])
    for job_id, job in jobs.items():
        if numbers.get(job_id, []) != list(range(1, job.claim_count + 1)):
            detail = f"{len(numbers.get(job_id, []))} attempts, and its number is {job.claim_count}"
            yield Violation(Invariant.CLAIMS, job_id, detail)


def _open_attempt_violations(job: Row, still_open: list[int]) -> Iterator[Violation]:
    expected = [job.claim_count] if job.status == State.RUNNING else []
    if still_open != expected:
        yield Violation(Invariant.LEASE, job.job_id, f"is {job.status}, with open attempts {still_open}")


def _backoff_violations(job: Row, last: Row) -> Iterator[Violation]:
    """Looks at jobs that wait because of an error; a person's retry starts the budget anew and waits for nothing."""
    if job.status != State.PENDING or last.outcome != "failed":
        return
    waits = job.available_at - last.ended_at
    tried = max(job.attempt_count, 1)
    shortest, longest = min(PAUSE_S, backoff_s(tried, lambda: 0.0)), max(PAUSE_S, backoff_s(tried, lambda: 1.0))
    after_a_person = job.attempt_count == 0 and waits != timedelta(seconds=PAUSE_S)
    if not after_a_person and not timedelta(seconds=shortest) <= waits <= timedelta(seconds=longest):
        yield Violation(Invariant.BACKOFF, job.job_id, f"waits {waits.total_seconds():.0f} s after attempt {tried}")


def _job_violations(job: Row) -> Iterator[Violation]:
    lease = (job.lease_token, job.worker_id, job.last_heartbeat, job.lease_expires_at)
    running = job.status == State.RUNNING
    if any((part is None) is running for part in lease):
        yield Violation(Invariant.LEASE, job.job_id, f"is {job.status}, and its lease is {lease}")
    if not 0 <= job.attempt_count <= job.max_attempts or job.attempt_count > job.claim_count:
        detail = f"{job.attempt_count} of {job.max_attempts} attempts in {job.claim_count} claims"
        yield Violation(Invariant.BUDGET, job.job_id, detail)
    if not 0 <= job.crash_count <= job.max_crashes:
        yield Violation(Invariant.BUDGET, job.job_id, f"{job.crash_count} of {job.max_crashes} crashes")
    if job.status in CLAIMABLE and (job.attempt_count == job.max_attempts or job.crash_count == job.max_crashes):
        yield Violation(Invariant.BUDGET, job.job_id, "waits for another attempt, and has none left")
    if (job.completed_at is not None) is not (job.status in FINISHED):
        yield Violation(Invariant.ENDED, job.job_id, f"is {job.status}, and ended at {job.completed_at}")


def _count_violations(connection: sa.Connection, jobs: Iterable[Row]) -> Iterator[Violation]:
    true = Counter((job.kind, job.status) for job in jobs)
    total = sa.func.sum(job_counts.c.jobs)
    query = sa.select(job_counts.c.kind, job_counts.c.status, total).group_by(job_counts.c.kind, job_counts.c.status)
    kept = Counter({(kind, status): int(number) for kind, status, number in connection.execute(query)})
    for key in sorted(true.keys() | kept.keys()):
        if true[key] != kept[key]:
            yield Violation(Invariant.COUNTS, None, f"{kept[key]} {' '.join(key)} jobs counted, {true[key]} there")


@dataclass(frozen=True)
class _Published:
    """A file, and what it may hold: two things while it is being replaced."""

    path: str
    job_id: str | None
    known: frozenset[str]


def _published(connection: sa.Connection) -> list[_Published]:
    """Every published file of every output folder; what a person has changed since, and is known to be theirs, not."""
    rows = list(_rows(connection, _PUBLICATIONS))
    found = {
        row.path: _Published(row.path, row.job_id, frozenset(one for one in (row.sha256, row.replaces) if one))
        for row in rows
        if not row.kept
    }
    theirs = {row.path for row in rows if row.kept}
    for job in _rows(connection, _OUTPUTS):
        for path in sorted({*job.output_files, *job.output_hashes} - theirs - found.keys()):
            recorded = job.output_hashes.get(path)
            found[path] = _Published(path, job.job_id, frozenset() if recorded is None else frozenset({recorded}))
    return list(found.values())


def _output_violations(one: _Published, digest_of: Callable[[str], str | None]) -> Iterator[Violation]:
    if not Path(one.path).is_absolute():
        return  # below a root that this host does not map: one that does can look
    found = digest_of(one.path)
    if found is None:
        yield Violation(Invariant.OUTPUTS, one.job_id, f"{one.path} is gone")
    elif one.known and found not in one.known:
        recorded = " or ".join(sorted(one.known))
        yield Violation(Invariant.OUTPUTS, one.job_id, f"{one.path} has changed: {found}, not {recorded}")
