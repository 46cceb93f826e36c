"""What the role of a Postgres connection may do with the manifest."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from content_pipeline.manifest.schema import metadata

_QUERY = sa.text("""
SELECT current_user AS role, current_schema() AS schema,
       bool_and(has_table_privilege(oid, 'SELECT')) AS may_read,
       bool_and(has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
                AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
       AND has_sequence_privilege(pg_get_serial_sequence('state_transitions', 'id'), 'USAGE') AS may_write,
       bool_and(pg_has_role(relowner, 'USAGE'))
       AND has_schema_privilege(current_schema(), 'CREATE') AS may_change_tables
FROM pg_catalog.pg_class
WHERE relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = current_schema())
      AND relname IN :tables
""").bindparams(sa.bindparam("tables", expanding=True))


@dataclass(frozen=True)
class Rights:
    """`may_change_tables`: what a migration needs, and no worker does."""

    role: str
    schema: str
    may_read: bool
    may_write: bool
    may_change_tables: bool


def rights_of(connection: sa.Connection) -> Rights | None:
    """None on SQLite, where the rights are those of the file."""
    if connection.dialect.name == "sqlite":
        return None
    found = connection.execute(_QUERY, {"tables": list(metadata.tables)}).one()
    return Rights(found.role, found.schema, bool(found.may_read), bool(found.may_write), bool(found.may_change_tables))
