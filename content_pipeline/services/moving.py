"""Moving a state folder's databases from SQLite to Postgres, and making or migrating the tables of a database."""

from __future__ import annotations

from pathlib import Path

from content_pipeline.dagster_runtime.configured_storage import postgres_of
from content_pipeline.dagster_runtime.copy_to_postgres import copy_to_postgres, record_files
from content_pipeline.dagster_runtime.dagster_yaml import has_stock_records, home_path
from content_pipeline.errors import BadSettings, NoManifest, StillInUse, printable
from content_pipeline.launchers.local.supervisor_lock import SupervisorLock
from content_pipeline.manifest.database import file_at, open_engine
from content_pipeline.services.document import Document
from content_pipeline.services.workers import list_workers
from content_pipeline.settings import Settings
from content_pipeline.settings.database_url import DatabaseUrl
from content_pipeline.system.open_files import processes_with_open

SHOWN = 60


class MovedTable(Document):
    table: str
    rows: int
    digest: str


class Moved(Document):
    """`was_there`: the same rows had been moved before, and nothing was written."""

    source: str
    target: str
    tables: tuple[MovedTable, ...]
    was_there: bool

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)


class Upgraded(Document):
    """`dagster_records`: whether Dagster's tables are in the same database."""

    database: str
    dagster_records: bool


def upgrade(settings: Settings) -> Upgraded:
    """Make the tables, or bring them to the schema of this version: what needs the rights of their owner."""
    open_engine(settings.manifest_url).dispose()
    url = postgres_of(settings)
    if url is not None:
        from content_pipeline.dagster_runtime.postgres_storage import PostgresRecords

        PostgresRecords(url).dispose()
    return Upgraded(database=str(settings.manifest_url), dagster_records=url is not None)


def move_to_postgres(settings: Settings, target: DatabaseUrl) -> Moved:
    """Copy the manifest that `settings` names (SQLite), and Dagster's records beside it, to a Postgres database.

    The files stay as they are. Refused while anybody works with them.
    """
    source, home = settings.manifest_url, home_path(settings)
    path = file_at(source)
    if path is None or target.is_sqlite:
        raise BadSettings(f"only SQLite can be moved, and only to Postgres; not {source} to {target}")
    if has_stock_records(home):
        raise BadSettings(f"{printable(home)} holds records of stock Dagster, a database for each run: not moved")
    if not path.exists():
        raise NoManifest(f"there is no manifest at {printable(path)}")
    _expect_unused(settings, path, home)
    before = _signatures(path, home)

    def expect_unchanged() -> None:
        _expect_unused(settings, path, home)
        if _signatures(path, home) != before:
            raise StillInUse(f"{printable(path.parent)} was written to meanwhile; nothing was moved")

    copied = copy_to_postgres(source, home, target, expect_unchanged)
    tables = tuple(
        MovedTable(table=name, rows=digest.rows, digest=digest.digest) for name, digest in copied.tables.items()
    )
    return Moved(source=str(source), target=str(target), tables=tables, was_there=copied.was_there)


def _signatures(path: Path, home: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of the databases, and of what is written beside them."""
    beside = [one.with_name(one.name + end) for one in (path, *record_files(home)) for end in ("", "-wal", "-journal")]
    stats = {one: one.stat() for one in beside if one.exists()}
    return {one: (stat.st_size, stat.st_mtime_ns) for one, stat in stats.items()}


def _expect_unused(settings: Settings, path: Path, home: Path) -> None:
    """By three signs: a supervisor's lock, workers that speak (on other hosts, too), and who has the files open."""
    holder = SupervisorLock(home).holder()
    if holder is not None:
        raise StillInUse(f"a worker is running for {printable(home)} (pid {holder.pid})")
    alive = [worker for worker in list_workers(settings).workers if worker.state != "stale"]
    if alive:
        raise StillInUse(f"a worker is running: {alive[0].host} pid {alive[0].pid}")
    users = processes_with_open([path, *record_files(home)])
    if users:
        pid, command = next(iter(users.items()))
        raise StillInUse(f"process {pid} has the databases open: {printable(command)[:SHOWN]}")
