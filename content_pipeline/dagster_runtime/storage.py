"""Dagster's records in SQLite, with connections that are kept and one database for the events of all runs.

Stock Dagster makes an engine, a connection and the SQL anew for every statement, and a database with all its tables
for every run: two thirds of what a small run costs. Same schema, same queries.

An event is a commit, and there are a hundred in a small run: they go to a write-ahead log, if SQLite is new enough to
be trusted with one. So it comes as a wheel, where there is one. Only while a database is made Dagster opens it with the
SQLite that Python was built with; a process that has a file open with both at once loses what it writes.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from dagster import DagsterInstance, Field, StringSource

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.atomic_events import AtomicEventLog
from content_pipeline.dagster_runtime.compressed_events import compress_events
from content_pipeline.dagster_runtime.dagster_yaml import provide_home
from content_pipeline.dagster_runtime.lasting_success import LastingSuccess
from content_pipeline.dagster_runtime.records_damage import expect_database, forget_log, named_failures
from content_pipeline.dagster_runtime.whole_storage import WholeStorage
from content_pipeline.manifest.read_only import connect_read_only
from content_pipeline.manifest.sqlite import FileIdentity, identity_of, on_network_filesystem, set_journal
from content_pipeline.settings import load
from content_pipeline.system.private_files import private_file, private_folder

try:
    import pysqlite3 as sqlite
except ImportError:  # no wheel for this machine: the one that Python was built with
    import sqlite3 as sqlite

SQLITE_VERSION: str = sqlite.sqlite_version
BUSY_TIMEOUT_S = 30
INCREMENTAL = 2  # pages that are free are given back when they are asked for
PAGES_AT_A_TIME = 500
HISTORY, SCHEDULES = "history", "schedules"  # folders, named as stock Dagster names them
KEPT, AT_MOST = 2, 64  # connections of one process: the UI asks from many threads

Opened = TypeVar("Opened")

compress_events()

_engines: dict[str, sa.Engine] = {}
_adding = threading.Lock()


def _engine(url: str) -> sa.Engine:
    """The engine of this process for a database; the SQL it has compiled outlives a fork, its connections do not."""
    with _adding:
        if url not in _engines:
            engine = sa.create_engine(
                url,
                module=sqlite,
                poolclass=sa.QueuePool,
                pool_size=KEPT,
                max_overflow=AT_MOST - KEPT,
                connect_args={"timeout": BUSY_TIMEOUT_S},
            )
            sa.event.listen(engine, "connect", partial(_set_pragmas, _journal(Path(str(engine.url.database)))))
            _engines[url] = engine
        return _engines[url]


def _journal(path: Path) -> str:
    return "wal" if wal_is_safe(sqlite.sqlite_version_info) and not on_network_filesystem(path) else "truncate"


def wal_is_safe(version: tuple[int, ...]) -> bool:
    """SQLite before 3.51.3 can corrupt a WAL that several processes reset (fixed in 3.50.7 and 3.44.6 too)."""
    fixed = ((3, 50), 7), ((3, 44), 6)
    return version >= (3, 51, 3) or any(version[:2] == minor and version[2] >= patch for minor, patch in fixed)


def _set_pragmas(journal: str, connection: Any, _record: Any) -> None:
    """With WAL a commit waits for the disk at checkpoints only: a killed process loses nothing, a power cut the
    last moments of history, which the manifest fills in again. Without WAL only FULL is safe from a power cut."""
    set_journal(connection, journal)
    connection.execute(f"PRAGMA synchronous={'NORMAL' if journal == 'wal' else 'FULL'}")


def _close_connections() -> None:
    """SQLite's locks belong to a process, its notes of them are inherited: a child that finds its parent's
    connection open would believe in locks it does not hold, and lose what it writes."""
    for engine in _engines.values():
        engine.dispose()


os.register_at_fork(before=_close_connections)


@contextmanager
def _begun(url: str) -> Iterator[sa.Connection]:
    _follow_file(url)
    with named_failures(_path(url)), _engine(url).begin() as connection:
        yield connection


def _path(url: str) -> Path:
    return Path(str(_engine(url).url.database))


_files: dict[str, FileIdentity] = {}  # which file the connections of an engine are open to
_make: dict[str, Callable[[], object]] = {}


def _follow_file(url: str) -> None:
    """Go on with the file that is there now: one that was moved away would be written to, and read by nobody."""
    path = _path(url)
    found = identity_of(path)
    if found is not None and found == _files.get(url):
        return
    _engine(url).dispose()
    if found is None and url in _make:
        _make[url]()
        found = identity_of(path)
    if found is not None:
        _files[url] = found


class KeptRuns(LastingSuccess, internals.SqliteRunStorage):
    def connect(self) -> Any:  # Dagster names a type that contextlib keeps to itself
        return _begun(self._conn_string)


class KeptSchedules(internals.SqliteScheduleStorage):
    def connect(self) -> Any:  # Dagster names a type that contextlib keeps to itself
        return _begun(self._conn_string)


class KeptEvents(AtomicEventLog, internals.ConsolidatedSqliteEventLogStorage):
    """Live logs are polled for: a kept connection does not touch the file that the stock watcher looks at."""

    def __init__(self, base_dir: str) -> None:
        self._watcher: internals.SqlPollingEventWatcher | None = None
        self._tables: set[str] = set()
        super().__init__(base_dir)

    def _init_db(self) -> None:
        """Done by `make`, under a lock. Stock Dagster's forgets to commit the revision here."""

    def make(self) -> KeptEvents:
        """The tables, if need be the rest of them; the revision comes last, and says that all is there."""
        with self._connect() as connection:
            internals.make_event_tables(connection)
        self.reindex_events()
        self.reindex_assets()
        with self._connect() as connection:
            internals.stamp_event_tables(connection)
        return self

    def _new_connection(self) -> AbstractContextManager[sa.Connection]:
        return _begun(self._conn_string)

    def _begin(self, asset_keys: Sequence[str]) -> AbstractContextManager[sa.Connection]:
        """The first statement inserts the event, and takes the lock of all writers: numbers are given out under it."""
        return _begun(self._conn_string)

    def has_table(self, table_name: str) -> bool:
        if table_name not in self._tables:
            with self._connect() as connection:
                if not sa.inspect(connection).has_table(table_name):
                    return False
            self._tables.add(table_name)
        return True

    def add_dynamic_partitions(self, partitions_def_name: str, partition_keys: Sequence[str]) -> None:
        """In one statement, as Dagster does on Postgres. Stock SQLite asks first which are new, and fails when another
        process adds one of them meanwhile."""
        self._check_partitions_table()
        with self._connect() as connection:
            internals.insert_partitions(connection, partitions_def_name, partition_keys)

    def watch(self, run_id: str, cursor: str | None, callback: Callable[..., Any]) -> None:
        if self._watcher is None:
            self._watcher = internals.SqlPollingEventWatcher(self)
        self._watcher.watch_run(run_id, cursor, callback)

    def end_watch(self, run_id: str, handler: Callable[..., Any]) -> None:
        if self._watcher is not None:
            self._watcher.unwatch_run(run_id, handler)

    def alembic_version(self) -> internals.AlembicVersion:
        with self._connect() as connection:
            return internals.event_log_revision(connection)

    def dispose(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None


class SqliteRecords(WholeStorage, internals.ConfigurableClass):
    """Three databases below a folder. Every process opens its own."""

    def __init__(self, base_dir: str, inst_data: internals.ConfigurableClassData | None = None) -> None:
        history, schedules = Path(base_dir) / HISTORY, Path(base_dir) / SCHEDULES
        super().__init__(
            _opened(history, "runs", KeptRuns, lambda: KeptRuns.from_local(str(history))),
            _opened(
                history, "event_log", lambda _url: KeptEvents(str(history)), lambda: KeptEvents(str(history)).make()
            ),
            _opened(schedules, "schedules", KeptSchedules, lambda: KeptSchedules.from_local(str(schedules))),
            inst_data,
        )

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {"base_dir": Field(StringSource, is_required=False)}

    @classmethod
    def from_config_value(
        cls, inst_data: internals.ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> SqliteRecords:
        base_dir = config_value.get("base_dir")
        return cls(str(provide_home(load().settings)) if base_dir is None else base_dir, inst_data)


def shrink(instance: DagsterInstance) -> None:
    """Give back to the disk what was deleted, a little at a time; a server does so by itself."""
    for part in (instance.event_log_storage, instance.run_storage, instance.schedule_storage):
        if isinstance(part, KeptRuns | KeptSchedules | KeptEvents):
            try:
                _shrink(part._conn_string)
            except sqlite.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                # Others write all the time: it is given back another day, and used again until then.


def _shrink(url: str) -> None:
    """A database of an earlier version is written anew once it is mostly empty; from then on it shrinks by itself."""
    with _engine(url).connect() as connection:
        database: Any = connection.connection.driver_connection
        database.isolation_level = None  # neither can be done inside a transaction; the connection is not used again
        connection.detach()
        names = "auto_vacuum", "page_count", "freelist_count"
        mode, pages, free = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        if mode != INCREMENTAL and 2 * free > pages:
            database.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")
            database.execute("VACUUM")
        for _ in range(0, free, PAGES_AT_A_TIME) if mode == INCREMENTAL else ():
            database.execute(f"PRAGMA incremental_vacuum({PAGES_AT_A_TIME})").fetchall()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # as far as readers let it


def examine_records(base_dir: Path) -> None:
    """Raises what is wrong with the databases that are there. Only looks: see `manifest.read_only`."""
    for folder, name in ((HISTORY, "runs"), (HISTORY, "event_log"), (SCHEDULES, "schedules")):
        path, ready = base_dir / folder / f"{name}.db", base_dir / folder / f".{name}.ready"
        if not path.exists() or not ready.exists():  # made, or finished, by the next command that needs it
            continue
        expect_database(path)
        with named_failures(path), closing(connect_read_only(path, sqlite)) as connection:
            connection.execute("SELECT 1 FROM alembic_version").fetchone()


def reading_engine(path: Path) -> sa.Engine:
    """One connection that changes nothing, not even beside the file: see `manifest.read_only`."""
    connect = partial(connect_read_only, path, sqlite)
    return sa.create_engine("sqlite://", module=sqlite, poolclass=sa.StaticPool, creator=connect)


def _opened(folder: Path, name: str, known: Callable[[str], Opened], new: Callable[[], Opened]) -> Opened:
    """A database as it is, or made by one process while the others wait.

    Dagster makes them with another SQLite, and changing the journal takes being alone in the file: nobody opens one
    before it is ready, nor keeps it open while it is made.
    """
    path, ready = folder / f"{name}.db", folder / f".{name}.ready"
    url = internals.create_db_conn_string(str(folder), name)
    _make[url] = partial(_opened, folder, name, known, new)
    if ready.exists() and path.exists():
        expect_database(path)
        return known(url)
    private_folder(folder)
    with private_file(folder / f".{name}.making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if ready.exists() and path.exists():
            return known(url)
        if not path.exists():
            forget_log(path)
        is_made = _is_stamped(path, url)
        _engine(url).dispose()
        if not is_made:
            _prepare(path)
        opened = known(url) if is_made else new()
        _is_stamped(path, url)  # the first of our connections to it: the journal is changed
        private_file(ready)
        return opened


def _prepare(path: Path) -> None:
    """An empty file that is private, and of which pages can be given back: neither can be had as easily later."""
    connection = sqlite.connect(private_file(path))
    try:
        connection.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")
        connection.execute("VACUUM")
    finally:
        connection.close()


def _is_stamped(path: Path, url: str) -> bool:
    """Whether Dagster has finished making it: the revision is written last."""
    if not path.exists():
        return False
    with _begun(url) as connection:
        has_version = sa.inspect(connection).has_table("alembic_version")
        return has_version and connection.execute(sa.text("SELECT 1 FROM alembic_version")).first() is not None
