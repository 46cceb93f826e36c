"""Migrations while workers of the version before are at work: they go on, or stop claiming, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

import content_pipeline.manifest.migrate as migrate
from content_pipeline.errors import NewerSchema
from content_pipeline.manifest.compatibility import SCHEMA_VERSION
from content_pipeline.manifest.database import Access, open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest
from content_pipeline_tests.conformance.manifests import add, claim, database_url, succeed

OLD_JOB = """INSERT INTO job_items (job_id, {kind}, library, {subject}, stage_keys, status, priority, claim_count,
attempt_count, max_attempts, crash_count, max_crashes, available_at, created_at, updated_at, cancel_requested,
output_files, output_hashes, results, cost, metadata, lease_token, worker_id, lease_expires_at)
VALUES ('{job}', 'processing', '/games', '/games/{job}.mp4', '{{}}', 'running', 0, 1, 1, 3, 0, 2, '2026-01-01',
'2026-01-01', '2026-01-01', false, '[]', '{{}}', '{{}}', '{{}}', '{{}}', 'token', 'w', '2036-01-01')"""
# As the version with schema 0006 renews a lease, and finds a job to claim.
RENEW = "UPDATE job_items SET last_heartbeat = '2026-01-02', updated_at = '2026-01-02' WHERE lease_token = 'token'"
LOOK = "SELECT job_id, kind, subject FROM job_items WHERE kind = 'processing' AND status = 'running' ORDER BY priority"
OLDER_LOOK = "SELECT job_id, video_path FROM job_items WHERE queue_type = 'processing'"


@pytest.fixture
def empty_url(kind: str, tmp_path: Path) -> Iterator[str]:
    with database_url(kind, tmp_path) as found:
        yield found


def plain_engine(url: str) -> sa.Engine:
    """As any program may connect: knows nothing of versions."""
    parsed = sa.make_url(url)
    if url.startswith("sqlite"):
        engine = sa.create_engine(parsed, connect_args={"timeout": 60})
        sa.event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
        return engine
    return sa.create_engine(parsed.set(drivername="postgresql+psycopg2"))


def made_by(url: str, revision: str, jobs: int = 3) -> None:
    engine = plain_engine(url)
    migrate.upgrade(engine, revision)
    names = {"kind": "kind", "subject": "subject"}
    if revision < "0006":
        names = {"kind": "queue_type", "subject": "video_path"}
    with engine.begin() as connection:
        for number in range(jobs):
            connection.exec_driver_sql(OLD_JOB.format(job=f"j{number}", **names))
    engine.dispose()


@contextmanager
def at_work(url: str, *statements: str) -> Iterator[Callable[[], int]]:
    """Workers that renew and look, over and over, until the block ends. Whatever fails there fails here.

    Gives a function that waits until each has done so once more, and says how often all have.
    """
    stop, done = threading.Event(), [threading.Semaphore(0), threading.Semaphore(0)]
    rounds = [0, 0]

    def work(number: int) -> None:
        engine = plain_engine(url)
        while not stop.is_set():
            with engine.begin() as connection:
                if engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                for statement in statements:
                    connection.exec_driver_sql(statement)
            rounds[number] += 1
            done[number].release()
        engine.dispose()

    def once_more() -> int:
        for one in done:
            while one.acquire(blocking=False):
                pass
            for _ in range(2):  # the first may have begun before
                assert one.acquire(timeout=30), "a worker is stuck"
        return sum(rounds)

    with ThreadPoolExecutor(len(rounds)) as pool:
        working = [pool.submit(work, number) for number in range(len(rounds))]
        try:
            yield once_more
        finally:
            stop.set()
        for one in working:
            one.result()


def test_workers_of_the_version_before_renew_and_look_while_the_schema_is_migrated(empty_url: str) -> None:
    made_by(empty_url, "0006")
    with at_work(empty_url, RENEW, LOOK) as once_more:
        before = once_more()
        with ThreadPoolExecutor(3) as pool:  # all at once, as when several hosts are started
            engines = list(pool.map(lambda _: open_engine(empty_url), range(3)))
        assert once_more() > before
    manifest = Manifest(engines[0])
    assert len(manifest.jobs.list()) == 3
    for engine in engines:
        engine.dispose()


def test_a_worker_that_is_two_versions_old_fails_without_changing_a_row(empty_url: str) -> None:
    """Schema 0006 renamed columns: what takes away is not additive, and shows at once."""
    made_by(empty_url, "0005")
    engine = plain_engine(empty_url)
    with engine.begin() as connection:
        assert len(connection.exec_driver_sql(OLDER_LOOK).all()) == 3
    open_engine(empty_url).dispose()
    with pytest.raises(sa.exc.DBAPIError, match=r"queue_type|video_path"), engine.begin() as connection:
        connection.exec_driver_sql(OLDER_LOOK)
    engine.dispose()
    current = open_engine(empty_url)
    assert [job.status for job in Manifest(current).jobs.list()] == ["running"] * 3
    current.dispose()


def marked(url: str, version: str, oldest: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}', oldest_program = '{oldest}'")
    engine.dispose()


def test_a_newer_schema_that_only_adds_is_worked_with(empty_url: str) -> None:
    marked(empty_url, "9999", oldest=SCHEMA_VERSION)
    for access in Access:
        open_engine(empty_url, access).dispose()
    engine = open_engine(empty_url)
    manifest = Manifest(engine)
    add(manifest, "a.mp4")
    succeed(manifest, claim(manifest))
    engine.dispose()


def test_once_a_newer_schema_takes_away_nothing_more_is_claimed_and_what_runs_may_end(empty_url: str) -> None:
    engine = open_engine(empty_url)
    manifest = Manifest(engine)
    add(manifest, "a.mp4", "b.mp4")
    job = claim(manifest)
    marked(empty_url, "9999", oldest="9999")
    with pytest.raises(NewerSchema, match="newer version of content-ai"):
        manifest.jobs.claim(ClaimRequest("worker"))
    manifest.jobs.renew("worker", [job.lease])
    succeed(manifest, job)
    assert sorted(one.status for one in manifest.jobs.list()) == ["pending", "succeeded"]
    for access in Access:
        with pytest.raises(NewerSchema):
            open_engine(empty_url, access)
    engine.dispose()


def test_a_migration_does_not_wait_for_ever_behind_a_long_transaction(
    kind: str, empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "sqlite":
        pytest.skip("SQLite has one lock, which `test_outages` is about")
    from content_pipeline.errors import DatabaseBusy

    made_by(empty_url, "0005")
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT_MS", 200)
    engine = plain_engine(empty_url)
    with engine.connect() as connection:
        connection.exec_driver_sql("SELECT * FROM job_items")
        with pytest.raises(DatabaseBusy):
            open_engine(empty_url)
    open_engine(empty_url).dispose()
    engine.dispose()
