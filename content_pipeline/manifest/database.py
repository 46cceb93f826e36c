"""Opening the manifest's database: SQLite by default, Postgres by URL, brought to the newest schema."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import sqlalchemy as sa

from content_pipeline.errors import BadSettings, DatabaseAway, DatabaseReadOnly, NoManifest, OldSchema
from content_pipeline.manifest.compatibility import SCHEMA_VERSION, expect_compatible
from content_pipeline.manifest.counts import write_counts
from content_pipeline.manifest.database_errors import first_line, name_failure
from content_pipeline.manifest.database_owner import Holds, damaged, look_at_file, look_at_schema
from content_pipeline.manifest.postgres import postgres_engine
from content_pipeline.manifest.postgres_schema import ManifestSchema
from content_pipeline.manifest.sqlite import (
    BUSY_TIMEOUT_MS,
    FileIdentity,
    file_of,
    is_file,
    read_only_engine,
    sqlite_engine,
)
from content_pipeline.manifest.sqlite import on_network_filesystem as on_network_filesystem
from content_pipeline.manifest.storage_roots import StorageRoots, roots_of
from content_pipeline.manifest.write_queue import wait_to_write
from content_pipeline.settings.database_url import DatabaseUrl, masked

FOLLOW_TRIES = 10


class Access(Enum):
    """What a command may do at the manifest's place."""

    READ = "read"  # look at a manifest as it is
    USE = "use"  # change what is in it, and bring it to the newest schema
    MAKE = "make"  # make one where there is none


def open_engine(url: DatabaseUrl | str, access: Access = Access.MAKE) -> sa.Engine:
    """An engine of this process; after a fork, parent and child each have their own connections.

    Whatever is at the manifest's place is looked at first: what is not ours is refused, and not touched.
    """
    parsed = parsed_url(url)
    if parsed.get_backend_name() == "sqlite":
        reads = access is Access.READ
        engine = read_only_engine(parsed) if reads else sqlite_engine(parsed, make_folder=access is Access.MAKE)
    else:
        engine = postgres_engine(parsed, pool_pre_ping=True)
        schema = _schemas[engine] = ManifestSchema(parsed)
        sa.event.listen(engine, "connect", schema.set_up)
    _engines.add(engine)
    _access[engine] = access
    _open(engine)
    return engine


def file_at(url: DatabaseUrl | str) -> Path | None:
    """The file that a URL names; None of a database on a server."""
    parsed = parsed_url(url)
    return Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None


def parsed_url(url: DatabaseUrl | str) -> sa.URL:
    """A path is taken as it is: `?` and `%` are letters in it, not parts of a URL."""
    try:
        real = (url if isinstance(url, DatabaseUrl) else DatabaseUrl(url)).reveal()
    except ValueError as error:
        raise BadSettings(f"`db` = {masked(str(url))!r} {error}") from error
    path = real.removeprefix("sqlite:///")
    try:
        return sa.make_url(real) if path == real else sa.URL.create("sqlite", database=path)
    except (sa.exc.ArgumentError, ValueError):
        # Without what was caught, which may quote the password.
        raise BadSettings(f"`db` = {masked(str(url))!r} is neither a path nor a database URL") from None


_engines: weakref.WeakSet[sa.Engine] = weakref.WeakSet()
_files: weakref.WeakKeyDictionary[sa.Engine, FileIdentity] = weakref.WeakKeyDictionary()
_access: weakref.WeakKeyDictionary[sa.Engine, Access] = weakref.WeakKeyDictionary()
_schemas: weakref.WeakKeyDictionary[sa.Engine, ManifestSchema] = weakref.WeakKeyDictionary()
_following = threading.RLock()
_the_parents: list[sa.Pool] = []


def _leave_connections_to_the_parent() -> None:
    global _following
    _following = threading.RLock()  # a thread that is not here may hold it
    _files.clear()  # which file was open is the parent's knowledge; a child looks for itself
    for engine in _engines:
        # Kept, not closed: closing SQLite's in the child could touch what the parent is writing.
        _the_parents.append(engine.pool)
        engine.dispose(close=False)


def _close_sqlite() -> None:
    """SQLite's locks belong to a process, and its notes of them are inherited: a child that finds its parent's
    connection open believes in locks that it does not hold, and with WAL can lose what it commits."""
    for engine in _engines:
        if engine.dialect.name == "sqlite":
            engine.dispose()


os.register_at_fork(before=_close_sqlite, after_in_child=_leave_connections_to_the_parent)


def _open(engine: sa.Engine) -> None:
    try:
        with named_failures(engine):
            _follow_file(engine) if is_file(engine) else _bring_up_to_date(engine)
    except sa.exc.DBAPIError as error:
        raise BadSettings(f"{_name(engine)} cannot be used as the manifest: {first_line(error.orig)}") from error


def _name(engine: sa.Engine) -> str | None:
    return masked(engine.url.render_as_string()) if engine.dialect.name == "postgresql" else engine.url.database


def _follow_file(engine: sa.Engine) -> None:
    """Go on with the file that is at the manifest's place, also when it was deleted or another was put there.

    Open connections would still write to the old one, which nobody will ever read again. It is theirs for as
    long as they are open, so no other file can have its number meanwhile.
    """
    found = file_of(engine)
    if found is not None and found == _files.get(engine):
        return
    with _following:
        for _ in range(FOLLOW_TRIES):
            before = file_of(engine)
            if before is not None and before == _files.get(engine):
                return
            engine.dispose()
            _bring_up_to_date(engine)
            found = file_of(engine)
            if found is not None and before in (None, found):
                _files[engine] = found
                return
    raise DatabaseAway(f"the manifest {_name(engine)} is replaced again and again")


def _bring_up_to_date(engine: sa.Engine) -> None:
    holds, access = _look(engine), _access[engine]
    if holds is Holds.NOTHING and access is not Access.MAKE:
        raise NoManifest(f"there is no manifest at {_name(engine)}")
    version = None if holds is Holds.NOTHING else _version(engine)
    if version is None and holds is Holds.MANIFEST and is_file(engine):
        raise damaged(Path(str(engine.url.database)), "the revision of its schema is missing")
    if version is not None and version > SCHEMA_VERSION:
        with engine.connect() as connection:
            expect_compatible(connection, str(_name(engine)))
        return
    if version != SCHEMA_VERSION and access is Access.READ:
        raise OldSchema(f"the manifest {_name(engine)} has schema {version}; this program needs {SCHEMA_VERSION}")
    if version != SCHEMA_VERSION or (holds is Holds.UNMARKED_MANIFEST and access is not Access.READ):
        from content_pipeline.manifest.migrate import upgrade

        upgrade(engine, make_schema=_schemas[engine].make if engine in _schemas else None)


def _look(engine: sa.Engine) -> Holds:
    if is_file(engine):
        return look_at_file(Path(str(engine.url.database)))
    _schemas[engine].choose(engine, str(_name(engine)))
    with engine.connect() as connection:
        return look_at_schema(connection, str(_name(engine)))


def _version(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


@dataclass(frozen=True)
class Transaction:
    """One transaction, and the database's time in it: every row that it writes carries the same.

    `counts` gathers how the number of jobs in each state changes; it is written last, once.
    """

    connection: sa.Connection
    now: datetime
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)


class Database:
    """The manifest's database as its parts use it: connections, transactions and the time. Only they see the engine.

    `clock` is given in tests; else it is the database's own. For `retry_s` an operation is tried again while the
    database is away: see `database_retry`.
    """

    def __init__(self, engine: sa.Engine, clock: Callable[[], datetime] | None = None) -> None:
        self.engine = engine
        self.retry_s = 0.0
        self._clock = clock

    @property
    def name(self) -> str:
        """A path, or a URL without its password."""
        return str(_name(self.engine))

    @property
    def roots(self) -> StorageRoots:
        """Where this host has the roots that its paths are stored by."""
        return roots_of(self.engine.dialect)

    def expect_compatible(self, connection: sa.Connection) -> None:
        """A newer version may have migrated it while this process runs."""
        if self.engine in _access:
            expect_compatible(connection, self.name)

    @contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """A connection to the manifest as it is now, whose failures have the names that workers act on."""
        with named_failures(self.engine):
            if is_file(self.engine):
                _follow_file(self.engine)
            with self.engine.connect() as connection:
                yield connection

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Atomic. On SQLite the write lock is taken at once, so that no reader has to upgrade and fail."""
        with self._wait_to_write(), self.connect() as connection:
            if self.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                tx = Transaction(connection, self.now(connection))
                yield tx
                write_counts(connection, tx.counts)
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """Read many things as they were at one moment."""
        with self.connect() as connection:
            if self.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")
            else:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection
            connection.rollback()

    def now(self, connection: sa.Connection) -> datetime:
        return _database_now(connection) if self._clock is None else self._clock()

    def close(self) -> None:
        """Close the connections; the next operation opens new ones."""
        self.engine.dispose()

    def _wait_to_write(self) -> AbstractContextManager[None]:
        if not is_file(self.engine):
            return nullcontext()
        return wait_to_write(Path(str(self.engine.url.database)), BUSY_TIMEOUT_MS / 1000)


@contextmanager
def named_failures(engine: sa.Engine) -> Iterator[None]:
    try:
        yield
    except sa.exc.DBAPIError as error:
        named = name_failure(error, engine)
        if named is None:
            raise
        if isinstance(named, DatabaseReadOnly):
            engine.dispose()  # connections to a server that was demoted stay read-only, whoever is primary now
        raise named from error


def _database_now(connection: sa.Connection) -> datetime:
    """The database's own clock: hosts that share it agree on when a lease ends."""
    if connection.dialect.name == "sqlite":  # one host, one clock
        return datetime.now(UTC)
    found: datetime = connection.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
    return found.astimezone(UTC)
