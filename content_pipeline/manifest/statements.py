"""Small pieces of SQL that every part of the manifest uses, on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from content_pipeline.manifest.schema import PathText
from content_pipeline.manifest.storage_roots import MARK, StorageRoots

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


def below(column: sa.ColumnElement[Any], folder: Path, roots: StorageRoots) -> tuple[sa.ColumnElement[bool], ...]:
    """Everything under a folder, as a range that an index serves; a root that lies in it is a range of its own."""
    prefix = str(folder).rstrip("/")
    stored = [PathText.stored(roots.to_stored(prefix)), *(MARK + name for name in roots.inside(prefix))]
    first, *others = [stored_below(column, one) for one in stored]
    return (sa.or_(sa.and_(*first), *(sa.and_(*other) for other in others)),) if others else first


def stored_below(column: sa.ColumnElement[Any], stored: str) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """The same of a folder as it is stored: `/` is followed by `0`."""
    first, last = (sa.literal(stored + mark, sa.Text) for mark in ("/", "0"))
    return column >= first, column < last


def clean(text: str, length: int) -> str:
    """What any database stores of a text of unknown origin: no NUL, no half characters, not too long."""
    return text[:length].replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode("utf-8")[:length]
