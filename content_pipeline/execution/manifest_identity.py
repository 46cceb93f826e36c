"""Which manifest a process works on: by its database alone, and with its password."""

from __future__ import annotations

import os
from collections.abc import Callable

from content_pipeline.errors import BadSettings
from content_pipeline.settings import Settings, load
from content_pipeline.settings.database_url import slow_digest


def database_of(settings: Settings) -> str:
    """Which database holds the manifest; the same whatever its password is. libpq's own variables count."""
    return _with_libpq(str(settings.manifest_url), settings, secrets=False)


def manifest_identity(settings: Settings) -> str:
    """Which manifest, and with which password: differs when either does, and gives away none.

    libpq's own variables count, `PGPASSWORD` among them; its files need not: they are read anew each time. Where
    Dagster keeps its records counts, too: a worker that looks for runs elsewhere finds none.
    """
    identity = _with_libpq(settings.manifest_url.identity, settings, secrets=True)
    return identity if settings.dagster_storage == "sqlite" else f"{identity}#{settings.dagster_storage}"


def current_database() -> str | None:
    """The database that the settings name here and now; None when they cannot be read."""
    return _if_readable(database_of)


def current_manifest() -> str | None:
    """The identity of the manifest that the settings name here and now; None when they cannot be read."""
    return _if_readable(manifest_identity)


def _with_libpq(address: str, settings: Settings, secrets: bool) -> str:
    url = settings.manifest_url
    libpq = sorted(item for item in os.environ.items() if item[0].startswith("PG"))
    if not secrets:
        libpq = [item for item in libpq if item[0] != "PGPASSWORD"]
    return address if url.is_sqlite or not libpq else f"{address}#{slow_digest(repr(libpq), str(url))}"


def _if_readable(ask: Callable[[Settings], str]) -> str | None:
    try:
        return ask(load().settings)
    except BadSettings:
        return None
