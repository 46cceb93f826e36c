"""Copying a manifest and Dagster's records from SQLite to Postgres, in one transaction.

The SQLite files are only read. What was copied is read back and compared before it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.postgres_storage import PostgresRecords
from content_pipeline.dagster_runtime.records_damage import SCHEMA, named_failures
from content_pipeline.dagster_runtime.storage import HISTORY, SCHEDULES, reading_engine
from content_pipeline.errors import CopyDiffers, TargetNotEmpty
from content_pipeline.manifest import database as manifest_database
from content_pipeline.manifest.add_root import stop_older_programs
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.open import engine_as_it_is
from content_pipeline.manifest.schema import metadata, workers
from content_pipeline.manifest.seen_roots import known_roots
from content_pipeline.manifest.table_copy import TableDigest, copy_rows, digest_rows
from content_pipeline.settings.database_url import DatabaseUrl

COPY_LOCK = 7283644
# What each database says of itself, or of processes that no longer are.
OF_ITSELF = frozenset({"secondary_indexes", "daemon_heartbeats", "instance_info"})
FILES = ((HISTORY, "runs"), (HISTORY, "event_log"), (SCHEDULES, "schedules"))


@dataclass(frozen=True)
class Copied:
    """`tables`: by `schema.table`. `was_there`: the target held the very same rows already; nothing was written."""

    tables: Mapping[str, TableDigest]
    was_there: bool


@dataclass(frozen=True)
class _Part:
    """The tables of one database file, and the schema that they go to; None is where the manifest is."""

    source: sa.Connection
    tables: tuple[sa.Table, ...]
    schema: str | None

    def name(self, table: sa.Table) -> str:
        return f"{'manifest' if self.schema is None else self.schema}.{table.name}"


def record_files(home: Path) -> list[Path]:
    """Dagster's databases that are there."""
    paths = [home / folder / f"{name}.db" for folder, name in FILES]
    return [path for path in paths if path.exists()]


def copy_to_postgres(
    manifest: DatabaseUrl, home: Path, target: DatabaseUrl, expect_alone: Callable[[], None]
) -> Copied:
    """All or nothing. `expect_alone` is asked once more before the end, and raises when somebody writes again."""
    engine = open_engine(target)
    PostgresRecords(target).dispose()
    try:
        with manifest_database.named_failures(engine), ExitStack() as sources, engine.begin() as connection:
            parts = sources.enter_context(_parts(manifest, home))
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({COPY_LOCK})"))
            expected = _digests(parts, None)
            there = _digests(parts, connection)
            if any(found.rows for found in there.values()):
                _expect_same(expected, there, str(target))
                return Copied(expected, was_there=True)
            _copy(parts, connection)
            if known_roots(connection):
                stop_older_programs(connection)
            _expect_copied(expected, _digests(parts, connection))
            expect_alone()
            return Copied(expected, was_there=False)
    finally:
        engine.dispose()


@contextmanager
def _parts(manifest: DatabaseUrl, home: Path) -> Iterator[list[_Part]]:
    """Each with a transaction open, so that it stays as it is: a manifest takes no writes meanwhile."""
    with ExitStack() as stack:
        of_jobs = tuple(table for table in metadata.sorted_tables if table is not workers)
        parts = [_Part(_begun(stack, engine_as_it_is(manifest)), of_jobs, None)]
        for path, tables in zip(
            (home / folder / f"{name}.db" for folder, name in FILES), internals.tables_of_each(), strict=True
        ):
            if path.exists():
                stack.enter_context(named_failures(path))
                copied = tuple(table for table in tables if table.name not in OF_ITSELF)
                parts.append(_Part(_begun(stack, reading_engine(path)), copied, SCHEMA))
        yield parts


def _begun(stack: ExitStack, engine: sa.Engine) -> sa.Connection:
    stack.callback(engine.dispose)
    connection = stack.enter_context(engine.connect())
    connection.exec_driver_sql("BEGIN")
    return connection


def _digests(parts: list[_Part], target: sa.Connection | None) -> dict[str, TableDigest]:
    """Of the sources, or of the same tables in the target."""
    found = {}
    for part in parts:
        with _in_schema(part, target):
            for table in part.tables:
                found[part.name(table)] = digest_rows(part.source if target is None else target, table)
    return found


def _copy(parts: list[_Part], target: sa.Connection) -> None:
    for part in parts:
        with _in_schema(part, target):
            for table in part.tables:
                copy_rows(part.source, target, table)


@contextmanager
def _in_schema(part: _Part, target: sa.Connection | None) -> Iterator[None]:
    if part.schema is None or target is None:
        yield
        return
    before = target.execute(sa.text("SHOW search_path")).scalar_one()
    target.execute(sa.text(f"SET LOCAL search_path TO {part.schema}"))
    yield
    target.execute(sa.text(f"SET LOCAL search_path TO {before}"))


def _expect_same(expected: Mapping[str, TableDigest], there: Mapping[str, TableDigest], target: str) -> None:
    others = [name for name, digest in expected.items() if there[name] != digest]
    if others:
        raise TargetNotEmpty(f"{target} already holds other records: {', '.join(others)}")


def _expect_copied(expected: Mapping[str, TableDigest], there: Mapping[str, TableDigest]) -> None:
    others = [f"{name} ({digest.rows} rows, {there[name].rows} there)" for name, digest in expected.items()]
    differing = [text for text, name in zip(others, expected, strict=True) if there[name] != expected[name]]
    if differing:
        raise CopyDiffers(f"what was copied is not what was read: {', '.join(differing)}; nothing was kept")
