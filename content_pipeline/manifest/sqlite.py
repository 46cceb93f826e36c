"""What SQLite needs to be trusted with several processes: a lock taken at once, a journal that is safe, real disks.

The journal is never a write-ahead log. A backup that is put in the manifest's place would be read together with the
log of the file before it, and nobody would notice a file that is deleted in the middle of a write.
"""

from __future__ import annotations

import sqlite3
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, QueuePool, StaticPool

from content_pipeline.errors import BadSettings, printable
from content_pipeline.manifest.read_only import connect_read_only
from content_pipeline.system.private_files import private_folder

FileIdentity = tuple[int, int]

BUSY_TIMEOUT_MS = 60_000
# File systems whose locks cannot be relied on between hosts (fuse.sshfs and its like have none at all).
NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"}


def sqlite_engine(url: sa.URL, make_folder: bool = True) -> sa.Engine:
    database = _database_file(url)
    try:
        if make_folder:
            private_folder(database.parent)
    except OSError as error:
        raise BadSettings(f"{printable(database)} cannot be used as the manifest: {error.strerror}") from error
    engine = sa.create_engine(url, poolclass=QueuePool, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    sa.event.listen(engine, "connect", _set_pragmas)
    return engine


def read_only_engine(url: sa.URL) -> sa.Engine:
    """For commands that only look. No connection is kept: each sees the file, and its journal, as they are then."""
    database = _database_file(url)
    return sa.create_engine(url, poolclass=NullPool, creator=lambda: connect_read_only(database))


def _database_file(url: sa.URL) -> Path:
    if url.database in (None, "", ":memory:"):
        raise BadSettings("`db` must be a file: a manifest in memory would be lost, and no other process could see it")
    database = Path(str(url.database))
    if on_network_filesystem(database):
        warnings.warn(
            f"the manifest {printable(database)} is on a network file system, where SQLite's locks cannot be trusted; "
            "put it on a local disk, or use Postgres",
            stacklevel=4,
        )
    return database


def memory_engine(copy_of: Path | None = None) -> sa.Engine:
    """A database of this process alone, empty or a copy: what commands that only look are given in place of a file."""
    engine = sa.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    sa.event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    if copy_of is not None:
        with engine.connect() as connection, closing(connect_read_only(copy_of)) as original:
            into: Any = connection.connection.driver_connection
            original.backup(into)
    return engine


def is_file(engine: sa.Engine) -> bool:
    return engine.dialect.name == "sqlite" and engine.url.database is not None


def file_of(engine: sa.Engine) -> FileIdentity | None:
    """Which file is at the manifest's place now, whatever connections are open to; None when it is gone."""
    return identity_of(Path(str(engine.url.database)))


def identity_of(path: Path) -> FileIdentity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _set_pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `database.transaction`
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    set_journal(connection, "truncate")
    connection.execute("PRAGMA synchronous=FULL")


def set_journal(connection: Any, mode: str) -> None:
    """Switching to and from WAL fails at once when another process is in the file, whatever the busy timeout says."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while connection.execute("PRAGMA journal_mode").fetchone() != (mode,):
        try:
            connection.execute(f"PRAGMA journal_mode={mode}").fetchone()
        except connection.OperationalError as error:  # of whichever library it is a connection of
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def on_network_filesystem(path: Path, mounts: str | None = None) -> bool:
    """Whether a path, that need not exist yet, lies on a file system of another host. Known on Linux only."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(errors="surrogateescape")
        except OSError:
            return False
    place = path.resolve()
    holding = [(target, kind) for target, kind in _mounted(mounts) if place.is_relative_to(target)]
    # The deepest mount holds the path; of several on one point, the last one hides the others.
    kind = max(enumerate(holding), key=lambda item: (len(item[1][0].parts), item[0]))[1][1] if holding else ""
    return kind in NETWORK_FILESYSTEMS


def _mounted(mounts: str) -> list[tuple[Path, str]]:
    fields = [line.split() for line in mounts.splitlines()]
    return [(Path(_unescaped(field[1])), field[2]) for field in fields if len(field) >= 3]


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
