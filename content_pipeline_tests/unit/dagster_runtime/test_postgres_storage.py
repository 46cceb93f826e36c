"""Dagster's records in Postgres: connections are kept, none crosses a fork, and every trouble has its name."""

import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.lost_manifest import has_dagster_records
from content_pipeline.dagster_runtime.postgres_pool import pool_of
from content_pipeline.errors import DagsterHomeBroken, DatabaseAway, DatabaseBusy, DatabaseReadOnly
from content_pipeline.manifest.database import open_engine
from content_pipeline.settings import Settings, load
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.conformance.postgres import Server

MAKERS = 3


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
def settings(server: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    flags = {"state_dir": tmp_path, "db": server.url(database), "dagster_storage": "postgres"}
    return load(flags=flags, env={}).settings


def use(instance: dg.DagsterInstance) -> None:
    """Something of each of the three storages."""
    instance.get_runs(limit=1)
    instance.add_dynamic_partitions("videos", ["a"])
    instance.run_storage.set_cursor_values({"a": "1"})
    instance.all_instigator_state()


def backend(instance: dg.DagsterInstance) -> int:
    """The server's process on the other end of the connection."""
    storage: Any = instance.event_log_storage
    with storage.index_connection() as connection:
        found: int = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    return found


def test_connections_are_kept_also_by_an_instance_that_is_opened_again(settings: Settings) -> None:
    with open_instance(settings) as instance:
        first = backend(instance)
        use(instance)
        instance.report_runless_asset_event(dg.AssetMaterialization("energy"))
    with open_instance(settings) as instance:
        assert backend(instance) == first


def test_no_connection_crosses_a_fork(settings: Settings) -> None:
    with open_instance(settings) as instance:
        storage: Any = instance.event_log_storage
        with storage.index_connection() as held:  # as by a thread, while another forks
            mine = held.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    use(instance)
                    os.write(writing, str(backend(instance)).encode())
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert int(os.read(reading, 100)) != mine
            assert held.execute(sa.text("SELECT pg_backend_pid()")).scalar_one() == mine
        use(instance)
        os.close(reading), os.close(writing)


def make(settings: Settings) -> None:
    with open_instance(settings) as instance:
        use(instance)


def test_several_processes_make_the_tables_at_once(settings: Settings) -> None:
    assert not has_dagster_records(settings)
    context = multiprocessing.get_context("spawn")
    makers = [context.Process(target=make, args=(settings,)) for _ in range(MAKERS)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert [maker.exitcode for maker in makers] == [0] * MAKERS
    assert has_dagster_records(settings)


def test_tables_whose_maker_was_killed_are_made_whole(settings: Settings, server: Server, database: str) -> None:
    server.execute("CREATE SCHEMA dagster_records", database)
    with pool_of(settings.manifest_url).connect() as connection:
        internals.RunStorageSqlMetadata.create_all(connection)
    assert not has_dagster_records(settings)
    make(settings)
    assert has_dagster_records(settings)
    with open_instance(settings) as instance:
        revision, head = instance.event_log_storage.alembic_version()
        assert revision == head
        assert instance.run_storage.has_built_index("run_partitions")  # type: ignore[attr-defined]


@pytest.mark.parametrize("records_first", [True, False])
def test_the_manifest_and_the_records_share_a_database_and_no_table(settings: Settings, records_first: bool) -> None:
    steps: list[Callable[[], object]] = [lambda: make(settings), lambda: open_engine(settings.manifest_url).dispose()]
    for step in steps if records_first else reversed(steps):
        step()
    engine = open_engine(settings.manifest_url)
    inspector = sa.inspect(engine)
    assert not internals.all_tables() & set(inspector.get_table_names())
    assert internals.all_tables() <= set(inspector.get_table_names("dagster_records"))
    engine.dispose()


def test_a_server_that_is_away_has_its_name_and_is_used_again_when_it_is_back(
    settings: Settings, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("content_pipeline.dagster_runtime.postgres_pool.RETRY_S", 0.0)
    with open_instance(settings) as instance:
        use(instance)
        with server.away():
            with pytest.raises(DatabaseAway, match=r"Dagster's records in .* do not answer"):
                use(instance)
            with pytest.raises(DatabaseAway):
                open_instance(settings)
        use(instance)  # at once: no kept connection is taken for one that works


def test_a_server_that_restarts_is_waited_for(settings: Settings, server: Server) -> None:
    import threading

    with open_instance(settings) as instance:
        use(instance)
        waiting = threading.Thread(target=use, args=(instance,))
        with server.away():
            waiting.start()
        waiting.join()
        use(instance)


def test_a_connection_that_ends_before_its_transaction_begins_is_replaced(settings: Settings, server: Server) -> None:
    """As when a server goes down between the look at a kept connection and its first use."""
    ended: list[int] = []

    def end_it(connection: Any, _record: Any, _proxy: Any) -> None:
        if not ended:
            ended.append(connection.info.backend_pid)
            server.execute(f"SELECT pg_terminate_backend({ended[0]}, 5000)")

    with open_instance(settings) as instance:
        use(instance)
        pool = pool_of(settings.manifest_url)
        with pool.begin() as connection:  # from now on its driver asks the server when the next one begins
            connection.execute(sa.text("SELECT 1"))
        sa.event.listen(pool.engine, "checkout", end_it)
        try:
            with pool.begin() as connection:
                assert connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one() not in ended
        finally:
            sa.event.remove(pool.engine, "checkout", end_it)
    assert len(ended) == 1


def test_a_server_that_takes_no_writes_has_its_name(settings: Settings, server: Server) -> None:
    with open_instance(settings) as instance:
        use(instance)
        with server.set("default_transaction_read_only", "on"), pytest.raises(DatabaseReadOnly):
            for _ in range(1000):  # the server is told a moment later
                use(instance)
        use(instance)


def test_damaged_records_have_one_name_and_the_way_out_works(settings: Settings, server: Server, database: str) -> None:
    with open_instance(settings) as instance:
        use(instance)
        server.execute("DROP TABLE dagster_records.dynamic_partitions", database)
        with pytest.raises(DagsterHomeBroken, match="dynamic_partitions") as met:
            instance.get_dynamic_partitions("videos")
    found = re.search(r"`(ALTER SCHEMA .*?)`", met.value.hint)
    assert found is not None
    server.execute(found[1], database)
    make(settings)


def test_a_statement_of_the_webserver_may_not_take_for_ever(settings: Settings) -> None:
    with open_instance(settings) as instance:
        instance.optimize_for_webserver(statement_timeout=100, pool_recycle=3600, max_overflow=5)
        storage: Any = instance.event_log_storage
        with pytest.raises(DatabaseBusy), storage.index_connection() as connection:
            connection.execute(sa.text("SELECT pg_sleep(30)"))
        use(instance)
    with open_instance(settings) as instance:
        storage = instance.event_log_storage
        with storage.index_connection() as connection:
            connection.execute(sa.text("SELECT pg_sleep(0.2)"))
