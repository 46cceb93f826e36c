"""Whose database it is, decided before anything is opened for writing. Looking changes nothing, not even a time stamp.

A manifest in SQLite carries our `application_id`. Versions before that wrote none, and Postgres has no such thing:
there it is known by its tables and by the revision of its schema. A database of anybody else is never touched.
"""

from __future__ import annotations

import sqlite3
import stat
import struct
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from content_pipeline.errors import BadSettings, ForeignDatabase, ManifestDamaged, printable
from content_pipeline.manifest.write_queue import ticket_file
from content_pipeline.system.read_beginning import read_beginning

APPLICATION_ID = int.from_bytes(b"CAIq")

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_WAL = 2
_FIRST_COLUMNS = frozenset({"path", "root", "key", "signature", "quick", "full", "first_seen", "last_seen"})
_SHOWN = 5


class Holds(Enum):
    """What lies at the manifest's place; anything else is refused by an error."""

    NOTHING = "nothing"  # not there, or empty: a manifest may be made
    MANIFEST = "manifest"
    UNMARKED_MANIFEST = "unmarked manifest"  # of a version that wrote no mark


@dataclass(frozen=True)
class _Contents:
    tables: Collection[str]
    video_columns: Collection[str]
    version: str | None

    @property
    def is_manifest(self) -> bool:
        if not set(self.video_columns) >= _FIRST_COLUMNS:
            return False
        if self.version in (None, "0001"):  # one table, with a name that others may use, too
            return set(self.tables) <= {"videos", "alembic_version"}
        return {"job_items", "state_transitions", "attempts"} <= set(self.tables)

    def describe(self) -> str:
        if not self.tables:
            return "it keeps a write-ahead log, as no manifest does"
        more = "" if len(self.tables) <= _SHOWN else f" and {len(self.tables) - _SHOWN} more"
        return f"it holds other tables: {printable(', '.join(sorted(self.tables)[:_SHOWN]))}{more}"


# --- SQLite


def look_at_file(path: Path) -> Holds:
    """Raises what is wrong with a file that is somebody else's, or ours and damaged."""
    header = _header(path)
    if header is None:
        return Holds.NOTHING
    if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES:
        if _was_ours(path, header):
            raise damaged(path, "it does not begin like a database")
        raise ForeignDatabase(f"{printable(path)} is no SQLite database")
    if _application_id(header) == APPLICATION_ID:
        _expect_whole(path, header)
        return Holds.MANIFEST
    if _application_id(header):
        raise ForeignDatabase(f"{printable(path)} belongs to another program: its application_id is not ours")
    found = _contents(path)
    if found.is_manifest:
        return Holds.UNMARKED_MANIFEST
    # What a write-ahead log holds cannot be seen without touching the file, and a manifest has none.
    if not found.tables and header[18] != _WAL:
        return Holds.NOTHING
    raise ForeignDatabase(f"{printable(path)} is no manifest: {found.describe()}")


def damaged(path: Path, why: str) -> ManifestDamaged:
    """With the way out, as commands that can be typed."""
    shown = printable(path)
    return ManifestDamaged(
        f"the manifest {shown} is damaged: {why}",
        hint=f"Move it away, `mv {shown} {shown}.damaged`, and run `content-ai process` again: a new one is made, "
        "filled from Dagster's records. Artifacts and montages stay.",
    )


def _header(path: Path) -> bytes | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ForeignDatabase(f"{printable(path)} is no file")
        return read_beginning(path, _HEADER_BYTES) if status.st_size else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadSettings(f"{printable(path)} cannot be used as the manifest: {error.strerror}") from error


def _application_id(header: bytes) -> int:
    return int.from_bytes(header[68:72])


def _was_ours(path: Path, header: bytes) -> bool:
    """By what is left of the header, or because writers of a manifest queued up here."""
    return _application_id(header) == APPLICATION_ID or ticket_file(path).is_file()


def _expect_whole(path: Path, header: bytes) -> None:
    """While a journal lies beside it, the size that the header tells may be that of a write that did not end."""
    size, pages = struct.unpack(">H", header[16:18])[0], struct.unpack(">I", header[28:32])[0]
    page_bytes = 65536 if size == 1 else size
    journal = path.with_name(f"{path.name}-journal")
    is_quiet = not journal.exists() or journal.stat().st_size == 0
    if is_quiet and path.stat().st_size < page_bytes * pages:
        raise damaged(path, "its end is missing")


def _contents(path: Path) -> _Contents:
    """Read without a lock and without a file beside it."""
    uri = f"file:{quote(str(path.absolute()).encode(errors='surrogateescape'))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            columns = {row[1] for row in connection.execute("PRAGMA table_info(videos)")}
            version = None
            if "alembic_version" in tables:
                version = (connection.execute("SELECT version_num FROM alembic_version").fetchone() or (None,))[0]
    except sqlite3.Error as error:
        if ticket_file(path).is_file():
            raise damaged(path, str(error)) from error
        raise ForeignDatabase(f"{printable(path)} cannot be read as a manifest: {error}") from error
    return _Contents({name for name in tables if not name.startswith("sqlite_")}, columns, version)


# --- Postgres


def look_at_schema(connection: sa.Connection, name: str) -> Holds:
    """Raises when the database is somebody else's."""
    inspector = sa.inspect(connection)
    tables = set(inspector.get_table_names())
    if not tables:
        return Holds.NOTHING
    columns = {column["name"] for column in inspector.get_columns("videos")} if "videos" in tables else set()
    version = None
    if "alembic_version" in tables:
        version = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    found = _Contents(tables, columns, version)
    if not found.is_manifest:
        raise ForeignDatabase(f"the database {name} is no manifest: {found.describe()}")
    return Holds.MANIFEST
