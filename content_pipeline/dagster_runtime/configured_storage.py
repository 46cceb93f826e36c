"""The storage that `dagster.yaml` names: SQLite or Postgres, as the setting `dagster_storage` says.

So that one file serves both, and holds no password: the address of a database comes from the settings at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.postgres_storage import PostgresRecords
from content_pipeline.dagster_runtime.storage import SqliteRecords
from content_pipeline.errors import BadSettings
from content_pipeline.settings import Settings, load
from content_pipeline.settings.database_url import DatabaseUrl

_given: ContextVar[Settings | None] = ContextVar("settings", default=None)


class ConfiguredRecords(internals.DagsterStorage, internals.ConfigurableClass):
    """Makes one of the two, and is none itself."""

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return SqliteRecords.config_type()

    @classmethod
    def from_config_value(  # type: ignore[override]  # the one that it makes is a storage, too
        cls, inst_data: internals.ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> SqliteRecords | PostgresRecords:
        """A process that Dagster started finds the settings as ours do: in the environment and the settings file."""
        settings = _given.get()
        url = postgres_of(load().settings if settings is None else settings)
        return (
            SqliteRecords.from_config_value(inst_data, config_value) if url is None else PostgresRecords(url, inst_data)
        )


@contextmanager
def using(settings: Settings) -> Iterator[None]:
    """Storages that are made meanwhile are those of these settings, which may have come by flags."""
    token = _given.set(settings)
    try:
        yield
    finally:
        _given.reset(token)


def postgres_of(settings: Settings) -> DatabaseUrl | None:
    """The Postgres database that holds Dagster's records; None when SQLite does."""
    if settings.dagster_storage == "sqlite":
        return None
    url = settings.manifest_url
    if url.is_sqlite:
        raise BadSettings(
            f"`dagster_storage` = 'postgres', but `db` names no Postgres database: {url}",
            hint="Let `db` (CONTENT_AI_DB) be a URL such as postgresql://user@host/name; Dagster's records go there.",
        )
    return url
