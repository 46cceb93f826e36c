"""Settings whose Dagster keeps its records in SQLite, or in a Postgres database of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from content_pipeline.settings import Settings, load
from content_pipeline_tests.conformance import postgres

KINDS = ("sqlite", "postgres")


@contextmanager
def records_in(kind: str, folder: Path, **flags: Any) -> Iterator[Settings]:
    """The database is gone afterwards."""
    given = {"state_dir": folder / "state", **flags}
    if kind == "sqlite":
        yield load(flags=given, env={}).settings
        return
    server = postgres.server()
    name = server.create()
    try:
        yield load(flags={**given, "db": server.url(name), "dagster_storage": "postgres"}, env={}).settings
    finally:
        server.drop(name)
