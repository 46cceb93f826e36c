"""Small pieces of SQL that every part of the manifest uses, on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from content_pipeline.manifest.schema import PathText

# SQLite takes 32,766 values in one statement; smaller pieces are no slower.
CHUNK = 500

T = TypeVar("T")


def insert_for(connection: sa.Connection, table: sa.Table) -> Any:
    """An insert with `ON CONFLICT`; both databases spell it alike, but SQLAlchemy has a class for each."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)


def locked(query: sa.Select[Any], skip: bool = False) -> sa.Select[Any]:
    """Keep the rows from changing under the transaction (SQLite has locked everything already)."""
    return query.with_for_update(skip_locked=skip)


def in_chunks(items: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def below(column: sa.ColumnElement[Any], folder: Path) -> tuple[sa.ColumnElement[bool], ...]:
    """Everything under a folder, as a range that an index serves: `/` is followed by `0`."""
    prefix = str(folder).rstrip("/")
    first, last = (sa.literal(prefix + mark, PathText) for mark in ("/", "0"))
    return column >= first, column < last


def clean(text: str, length: int) -> str:
    """What any database stores of a text of unknown origin: no NUL, no half characters, not too long."""
    return text[:length].replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode("utf-8")[:length]
