"""Manifests to test with: on either database, with a clock that stands still until it is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest.database import Database, open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure, JobRequest, JobResult
from content_pipeline.manifest.schema import metadata
from content_pipeline_tests.conformance import postgres

LEASE_S = 90.0
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Clock:
    time: datetime = field(default=START)

    def __call__(self) -> datetime:
        return self.time

    def pass_s(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@contextmanager
def database_url(kind: str, folder: Path) -> Iterator[str]:
    """A fresh, empty database of this kind, gone afterwards."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'manifest.db'}"
        return
    server = postgres.server()
    name = server.create()
    try:
        yield server.url(name)
    finally:
        server.drop(name)


@contextmanager
def manifest_url(kind: str, folder: Path) -> Iterator[str]:
    """The same with the schema in it: a copy of one made before, which is faster."""
    if kind == "sqlite":
        (folder / "manifest.db").write_bytes(_sqlite_template())
        yield f"sqlite:///{folder / 'manifest.db'}"
        return
    server = postgres.server()
    name = _unused.pop() if _unused else server.create(_postgres_template())
    yield server.url(name)
    # Emptied and used again, which is faster than another copy; after a failure it is left to the post-mortem.
    server.execute(f"TRUNCATE {', '.join(metadata.tables)} RESTART IDENTITY", name)
    server.execute("UPDATE alembic_version SET oldest_program = '0006'", name)  # as it was made
    _unused.append(name)


_unused: list[str] = []


@cache
def _sqlite_template() -> bytes:
    with TemporaryDirectory() as folder:
        open_engine(f"sqlite:///{folder}/manifest.db").dispose()
        return (Path(folder) / "manifest.db").read_bytes()


@cache
def _postgres_template() -> str:
    server = postgres.server()
    name = server.create()
    open_engine(server.url(name)).dispose()
    return name


@contextmanager
def opened(url: str, clock: Clock | None, lease_s: float = LEASE_S) -> Iterator[Manifest]:
    engine = open_engine(url)
    try:
        yield Manifest(engine, clock, random=lambda: 0.5, lease_s=lease_s)
    finally:
        engine.dispose()


def add(manifest: Manifest, *names: str, **given: Any) -> list[str]:
    """Ask for videos of these names; the ids of their jobs."""
    given = {"library": "/games", **given}
    manifest.jobs.enqueue([JobRequest(f"{given['library']}/{name}", **given) for name in names])
    by_path = {job.subject: job.job_id for job in manifest.jobs.list()}
    return [by_path[f"{given['library']}/{name}"] for name in names]


def claim(manifest: Manifest, worker: str = "worker") -> Job:
    (job,) = manifest.jobs.claim(ClaimRequest(worker))
    return job


def fail(
    manifest: Manifest, job: Job, policy: RetryPolicy, code: str = "ffmpeg_failed", stage: str | None = None
) -> Any:
    return manifest.jobs.fail(job.lease, JobFailure(code, "it went wrong", policy, stage))


def succeed(manifest: Manifest, job: Job, **given: Any) -> None:
    manifest.jobs.succeed(job.lease, JobResult(**given))


def moves(manifest: Manifest, job_id: str) -> list[str]:
    return [f"{one.from_state}->{one.to_state}" for one in manifest.jobs.history(job_id)]


def database_of(manifest: Manifest) -> Database:
    """What no program gets: for tests that look behind the manifest, or change it behind its back."""
    return manifest._database


def dump(manifest: Manifest) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    with database_of(manifest).engine.connect() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(sa.select(table))), key=repr)
            for table in metadata.sorted_tables
        }


def plan_of(manifest: Manifest, query: sa.Select[Any]) -> str:
    """How the database would answer a query."""
    engine = database_of(manifest).engine
    text = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
    word = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    with engine.connect() as connection:
        return "\n".join(str(row) for row in connection.exec_driver_sql(f"{word} {text}"))


def many(number: int, library: str = "/games") -> Sequence[JobRequest]:
    return [JobRequest(f"{library}/{index:06}.mp4", library) for index in range(number)]
