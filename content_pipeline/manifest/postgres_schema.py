"""In which schema of a Postgres database the manifest is.

A new one gets a schema of its own, so that roles can be given rights to it and a database can hold other things beside
it. One that an earlier version made is in the user's default schema (`public`), is found there and stays there.
A database with tables of somebody else is refused, unless an administrator has made our schema in it: that is consent.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import DatabasePermission, ForeignDatabase
from content_pipeline.manifest.database_owner import look_at_schema

SCHEMA = "content_ai"

_PLACES = sa.text("""
SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :own) AS has_own,
       (SELECT pg_catalog.has_schema_privilege(oid, 'USAGE')
        FROM pg_catalog.pg_namespace WHERE nspname = :own) AS may_use,
       EXISTS (SELECT FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p') AND relnamespace =
               (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = :own)) AS own_is_used,
       EXISTS (SELECT FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p') AND relnamespace =
               (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = current_schema())) AS default_is_used,
       pg_catalog.has_database_privilege(current_database(), 'CREATE') AS may_make
""")


class ManifestSchema:
    """Every connection of an engine goes to the schema that was chosen; None means the user's default."""

    def __init__(self, url: sa.URL) -> None:
        self.name: str | None = None
        self._is_named_in_url = "search_path" in str(url.query.get("options", ""))

    def choose(self, engine: sa.Engine, shown: str) -> None:
        """By what is there now. `shown` is the database's name for people."""
        if self._is_named_in_url:
            return
        with engine.connect() as connection:
            self.name = _choose(connection, shown)
        if self.name is not None:
            engine.dispose()  # connections that are open are in the default schema

    def make(self, connection: sa.Connection) -> None:
        if self.name is not None:
            make_schema(connection, self.name)

    def set_up(self, connection: Any, _record: Any) -> None:
        """Of a connection that was just made."""
        if self.name is not None:
            with connection, connection.cursor() as cursor:
                cursor.execute(f"SET search_path TO {self.name}")


def make_schema(connection: sa.Connection, name: str) -> None:
    """Unless it is there: `IF NOT EXISTS` asks for the right to make one also where there is one."""
    there = sa.text("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :name")
    if connection.execute(there, {"name": name}).first() is None:
        connection.execute(sa.text(f"CREATE SCHEMA {name}"))


def _choose(connection: sa.Connection, shown: str) -> str | None:
    places = connection.execute(_PLACES, {"own": SCHEMA}).one()
    if places.own_is_used:
        if not places.may_use:
            raise DatabasePermission(
                f"this role may not look into the schema {SCHEMA} of {shown}, where the manifest is"
            )
        return SCHEMA
    if not places.default_is_used:
        # A user who may make no schema, but tables in the default one, has the manifest there as in earlier versions.
        return SCHEMA if places.has_own or places.may_make else None
    if not places.has_own:
        return None
    try:
        look_at_schema(connection, shown)
    except ForeignDatabase:
        return SCHEMA
    return None
