"""The manifest against a plain sqlite3 loop: taking work in, handing it out, and whether size slows it down."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from bench.measure import Row
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult
from content_pipeline_tests.conformance import postgres

MANY, FEW = 100_000, 1_000
SAMPLES = 400
JOBS_A_SECOND = 20_000
WRITERS, JOBS_EACH = 16, 60
# What a new job says, and what it says nothing of.
_PLAIN = "job_id, library, subject, kind, available_at, created_at, updated_at"
_NUMBERS = ("priority", "claim_count", "attempt_count", "max_attempts", "crash_count", "max_crashes")
_EMPTY = {
    "status": "'pending'",
    "cancel_requested": "false",
    **dict.fromkeys(("stage_keys", "output_files", "output_hashes", "results", "cost", "metadata"), "'{}'"),
    **dict.fromkeys(_NUMBERS, "0"),
}


def rows(folder: Path) -> Iterator[Row]:
    server = postgres.start(durable=True)
    try:
        urls = {name: (f"sqlite:///{folder}/{name}.db", server.url(server.create())) for name in ("many", "few")}
        for index, database in enumerate(("SQLite", "Postgres")):
            yield from _rows_of(database, urls["many"][index], urls["few"][index], folder / f"plain-{index}.db")
    finally:
        server.stop()
    yield _longest_wait(folder)


def _longest_wait(folder: Path) -> Row:
    """Many processes that do nothing but write: how long the unluckiest operation of all took."""
    ours_s = _longest_operation_s(folder / "in-turn.db")
    with mock.patch("content_pipeline.manifest.database.wait_to_write", lambda *_: nullcontext()):
        plain_s = _longest_operation_s(folder / "by-chance.db")
    name = f"longest wait of {WRITERS} writers, {WRITERS * JOBS_EACH:,} jobs, SQLite"
    return Row(name, ours_s, plain_s, "s", 1, "SQLite's own lock")


def _longest_operation_s(path: Path) -> float:
    fork, url = multiprocessing.get_context("fork"), f"sqlite:///{path}"
    manifest = Manifest(open_engine(url))
    manifest.jobs.enqueue(_requests(WRITERS * JOBS_EACH))
    longest = fork.SimpleQueue()
    writers = [fork.Process(target=_write_in_a_row, args=(url, longest)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    found = max(longest.get() for _ in writers)
    for writer in writers:
        writer.join()
    manifest.close()
    return float(found)


def _write_in_a_row(url: str, longest: Any) -> None:
    manifest, took_s = Manifest(open_engine(url)), []
    for _ in range(JOBS_EACH):
        began = time.perf_counter()
        (job,) = manifest.jobs.claim(ClaimRequest("bench"))
        claimed = time.perf_counter()
        manifest.jobs.succeed(job.lease, JobResult())
        took_s += [claimed - began, time.perf_counter() - claimed]
    longest.put(max(took_s))


def _rows_of(database: str, many_url: str, few_url: str, plain: Path) -> Iterator[Row]:
    # Row by row over a socket takes long: a tenth of it is enough to know.
    share = 1 if database == "SQLite" else 10
    plain_s = _plain_enqueue(few_url, MANY // share) * share
    many, few = Manifest(open_engine(many_url)), Manifest(open_engine(few_url))
    requests = _requests(MANY)
    took_s = _seconds(lambda: many.jobs.enqueue(requests))
    few.reset()
    few.jobs.enqueue(_requests(FEW))
    yield Row(f"enqueue {MANY:,} jobs, {database}", took_s, plain_s, "s", 1, "row by row")
    yield Row(f"enqueue at {JOBS_A_SECOND:,} jobs/s, {database}", took_s, MANY / JOBS_A_SECOND, "s", 1)
    yield Row(
        f"claim and succeed, {database}",
        _mean_ms(lambda: _work(few)),
        _plain_work_ms(plain),
        "ms",
        0.1,
        "no lease, no history",
    )
    for name, one in (("claim", _claim), ("counts", lambda manifest: manifest.jobs.counts())):
        large, small = _p99_ms(one, many, few)
        yield Row(f"{name}, p99 at {MANY:,} and {FEW:,}, {database}", large, small, "ms", 0.5, f"itself at {FEW:,}")
    for manifest in (many, few):
        manifest.close()


def _requests(number: int) -> list[JobRequest]:
    return [JobRequest(f"/recordings/games/2026-01-01 {index:06}.mp4", "/recordings/games") for index in range(number)]


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _mean_ms(work: Callable[[], object], times: int = 100) -> float:
    return _seconds(lambda: [work() for _ in range(times)]) * 1000 / times


def _p99_ms(one: Callable[[Manifest], object], many: Manifest, few: Manifest) -> tuple[float, float]:
    """Taken in turns, so that a busy moment of the machine meets both."""
    took_s: tuple[list[float], list[float]] = ([], [])
    for _ in range(SAMPLES):
        for manifest, times in zip((many, few), took_s, strict=True):
            times.append(_seconds(partial(one, manifest)))
    large, small = (sorted(times)[int(SAMPLES * 0.99)] * 1000 for times in took_s)
    return large, small


def _claim(manifest: Manifest) -> None:
    assert manifest.jobs.claim(ClaimRequest("bench"))


def _work(manifest: Manifest) -> None:
    for job in manifest.jobs.claim(ClaimRequest("bench")):
        manifest.jobs.succeed(job.lease, JobResult())


def _plain_enqueue(url: str, number: int) -> float:
    """By the book: the same table, an insert for each job, one commit; on either database."""
    engine = open_engine(url)
    connection = engine.raw_connection()
    cursor = connection.cursor()
    mark = "?" if engine.dialect.name == "sqlite" else "%s"
    values = [*[mark] * 7, *_EMPTY.values()]
    statement = (
        f"INSERT INTO job_items ({_PLAIN}, {', '.join(_EMPTY)}) VALUES ({', '.join(values)}) ON CONFLICT DO NOTHING"
    )
    requests, now = _requests(number), "2026-01-01 00:00:00.000000"
    began = time.perf_counter()
    cursor.execute("BEGIN")
    for request in requests:
        cursor.execute(statement, (uuid.uuid4().hex[:26], request.library, request.subject, "plain", now, now, now))
    connection.commit()
    took_s = time.perf_counter() - began
    connection.close()
    engine.dispose()
    return took_s


def _plain_work_ms(path: Path) -> float:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, path TEXT UNIQUE, status TEXT, worker TEXT)")
        connection.execute("CREATE INDEX by_status ON jobs (status)")
        jobs = [(request.subject, "pending") for request in _requests(FEW)]
        connection.executemany("INSERT INTO jobs (path, status) VALUES (?, ?)", jobs)
        return _mean_ms(lambda: _plain_work(connection))


def _plain_work(connection: sqlite3.Connection) -> None:
    """Take one and finish it: no lease, no fence, no history."""
    connection.execute("BEGIN IMMEDIATE")
    (job,) = connection.execute("SELECT id FROM jobs WHERE status = 'pending' LIMIT 1").fetchone()
    connection.execute("UPDATE jobs SET status = 'running', worker = 'bench' WHERE id = ?", (job,))
    connection.execute("COMMIT")
    connection.execute("UPDATE jobs SET status = 'succeeded' WHERE id = ?", (job,))
