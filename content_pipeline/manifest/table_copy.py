"""Copying a table from one database to another, and telling whether both hold the same rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

ROWS_AT_A_TIME = 500
_MODULUS = 1 << 256


@dataclass(frozen=True)
class TableDigest:
    """How many rows, and the sum of their digests: the same in whichever order a database gives them."""

    rows: int
    digest: str


def copy_rows(source: sa.Connection, target: sa.Connection, table: sa.Table) -> None:
    """Every row with its number; rows that are added later get higher ones."""
    for rows in _chunks(source, table):
        target.execute(sa.insert(table), [dict(row) for row in rows])
    column = table.autoincrement_column
    if column is None or target.dialect.name != "postgresql":
        return
    sequence = target.execute(
        sa.text("SELECT pg_get_serial_sequence(:table, :column)"), {"table": table.name, "column": column.name}
    ).scalar()
    highest = target.execute(sa.select(sa.func.max(column))).scalar()
    if sequence is not None and highest is not None:
        target.execute(sa.text("SELECT setval(:sequence, :highest)"), {"sequence": sequence, "highest": highest})


def digest_rows(connection: sa.Connection, table: sa.Table) -> TableDigest:
    number, total = 0, 0
    for rows in _chunks(connection, table):
        for row in rows:
            said = json.dumps([_plain(value) for value in row.values()], sort_keys=True, ensure_ascii=True)
            total = (total + int.from_bytes(hashlib.sha256(said.encode()).digest())) % _MODULUS
        number += len(rows)
    return TableDigest(number, f"{total:064x}")


def _chunks(connection: sa.Connection, table: sa.Table) -> Iterator[Sequence[sa.RowMapping]]:
    streamed = connection.execute(sa.select(table), execution_options={"yield_per": ROWS_AT_A_TIME})
    yield from streamed.mappings().partitions()


def _plain(value: Any) -> Any:
    """As JSON, alike for both databases: drivers differ in the types of bytes and times."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return value
