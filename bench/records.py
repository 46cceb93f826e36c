"""Dagster's records in Postgres: our pooled storage against dagster-postgres as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
from dagster_postgres import PostgresEventLogStorage

from bench.measure import Row
from content_pipeline.dagster_runtime.postgres_storage import PostgresRecords
from content_pipeline.settings.database_url import DatabaseUrl
from content_pipeline_tests.conformance import postgres

EVENTS = 300


def rows(_folder: Path) -> Iterator[Row]:
    """The server does not wait for its disk: what is compared is the way there, and how often it is gone."""
    server = postgres.start(durable=False)
    try:
        ours = PostgresRecords(DatabaseUrl(server.url(server.create()))).event_log_storage
        theirs = PostgresEventLogStorage(DatabaseUrl(server.url(server.create())).reveal())
        for name, event in (("a log line", line), ("a materialization", _materialization)):
            yield Row(
                f"storing {name} in Postgres: time",
                1000 * _seconds_each(ours.store_event, event),
                1000 * _seconds_each(theirs.store_event, event),
                "ms",
                2,
                "dagster-postgres",
            )
    finally:
        server.stop()


def _seconds_each(store: Callable[[dg.EventLogEntry], None], event: Callable[[int], dg.EventLogEntry]) -> float:
    store(event(0))  # whatever is done once, is
    events = [event(number) for number in range(EVENTS)]
    started = time.perf_counter()
    for one in events:
        store(one)
    return (time.perf_counter() - started) / EVENTS


def line(number: int) -> dg.EventLogEntry:
    return dg.EventLogEntry(  # type: ignore[no-untyped-call]
        error_info=None, level=20, user_message=f"line {number}", run_id="a-run", timestamp=time.time()
    )


def _materialization(number: int) -> dg.EventLogEntry:
    instance, made = dg.DagsterInstance.ephemeral(), dg.AssetMaterialization("energy", partition=str(number))
    instance.report_runless_asset_event(made)
    (record,) = instance.fetch_materializations(dg.AssetKey("energy"), limit=1).records
    return record.event_log_entry
