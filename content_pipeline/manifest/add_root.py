"""Giving a folder of shared storage its name: every path below it is stored anew, in one transaction.

What is known stays known, so nothing is done again. Nobody may be at work meanwhile: a worker that began before would
report absolute paths. From then on the version before claims nothing more, as it would take a name
for a file that is not there.
"""

from __future__ import annotations

import json

import sqlalchemy as sa

from content_pipeline.errors import StillInUse, StorageMismatch, counted
from content_pipeline.manifest.breaker import LIBRARY
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.schema import PathsJson, PathText, ScopeText, job_items, metadata, storage_roots, videos
from content_pipeline.manifest.statements import stored_below
from content_pipeline.manifest.storage_roots import MARK, StorageRoots
from content_pipeline.manifest.videos import shared_signature

# The schema whose programs know roots.
KNOWS_ROOTS = "0008"
LOCK_TIMEOUT_MS = 30_000


def add_root(tx: Transaction, name: str, folder: str, marker: str) -> int:
    """Returns how many texts and documents were stored anew; a root that was added before stays as it is."""
    _keep_others_out(tx)
    if _was_added(tx, name, marker):
        return 0
    _expect_nobody_at_work(tx)
    tx.connection.execute(sa.insert(storage_roots).values(name=name, marker=marker, added_at=tx.now))
    stop_older_programs(tx.connection)
    _share_signatures(tx, folder)  # before the paths, by which they are found
    changed = 0
    for table in metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, PathText):
                changed += _store_paths(tx, column, name, folder)
            elif isinstance(column.type, PathsJson):
                changed += _store_documents(tx, column, StorageRoots({name: folder}))
    return changed


def stop_older_programs(connection: sa.Connection) -> None:
    """They claim nothing more from now on: they would take the name of a root for a file that is not there."""
    older = sa.text("UPDATE alembic_version SET oldest_program = :this WHERE oldest_program < :this")
    connection.execute(older, {"this": KNOWS_ROOTS})


def _keep_others_out(tx: Transaction) -> None:
    """On Postgres, until the end; they may read. SQLite has locked everything already."""
    if tx.connection.dialect.name == "postgresql":
        tables = ", ".join(table.name for table in metadata.sorted_tables)
        tx.connection.execute(sa.text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))
        tx.connection.execute(sa.text(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE"))


def _expect_nobody_at_work(tx: Transaction) -> None:
    """Whatever a job is about: where its outputs go may be known to its worker alone."""
    at_work = sa.select(sa.func.count()).where(job_items.c.status == State.RUNNING)
    if number := tx.connection.execute(at_work).scalar_one():
        raise StillInUse(f"{counted(number, 'job')} {'is' if number == 1 else 'are'} running")


def _was_added(tx: Transaction, name: str, marker: str) -> bool:
    """Raises when the name means other storage, or the storage has another name."""
    known = storage_roots.c
    query = sa.select(known.name, known.marker).where(sa.or_(known.name == name, known.marker == marker))
    for row in tx.connection.execute(query):
        if row.name != name:
            raise StorageMismatch(f"this storage is known as the root `{row.name}` already: call it so here, too")
        if row.marker != marker:
            raise StorageMismatch(f"the root `{name}` has the marker of other storage: something else is mounted there")
        return True
    return False


def _store_paths(tx: Transaction, column: sa.Column[str], name: str, folder: str) -> int:
    """In SQL, for there may be many; a scope is a path behind a word."""
    before = (LIBRARY if isinstance(column.type, ScopeText) else "") + PathText.stored(folder)
    after = (LIBRARY if isinstance(column.type, ScopeText) else "") + MARK + name
    rest = sa.func.substr(sa.type_coerce(column, sa.Text), len(before) + 1)
    named = sa.literal(after, sa.Text).op("||")(rest)
    update = sa.update(column.table).where(_at_or_below(column, before))
    return tx.connection.execute(update.values({column: sa.type_coerce(named, sa.Text)})).rowcount


def _at_or_below(column: sa.Column[str], stored: str) -> sa.ColumnElement[bool]:
    return sa.or_(column == sa.literal(stored, sa.Text), sa.and_(*stored_below(column, stored)))


def _share_signatures(tx: Transaction, folder: str) -> None:
    query = sa.select(videos.c.path, videos.c.signature).where(*stored_below(videos.c.path, PathText.stored(folder)))
    rows = [{"at": row.path, "shared": shared_signature(row.signature)} for row in tx.connection.execute(query)]
    if rows:
        update = sa.update(videos).where(videos.c.path == sa.bindparam("at", type_=PathText))
        tx.connection.execute(update.values(signature=sa.bindparam("shared")), rows)


def _store_documents(tx: Transaction, column: sa.Column[object], roots: StorageRoots) -> int:
    changed = 0
    (folder,) = roots.folders.values()
    (identity,) = column.table.primary_key.columns
    query = sa.select(identity, column.label("document")).where(_mentions(column, folder))
    for row in list(tx.connection.execute(query)):
        stored = roots.json_to_stored(row.document)
        if stored != row.document:
            update = sa.update(column.table).where(identity == row[0])
            tx.connection.execute(update.values({column: stored}))
            changed += 1
    return changed


def _mentions(column: sa.ColumnElement[object], folder: str) -> sa.ColumnElement[bool]:
    """May be true of more: what is found is looked at."""
    spelled = json.dumps(folder)[1:-1]
    return sa.cast(sa.type_coerce(column, sa.JSON), sa.Text).contains(spelled, autoescape=True)
