"""What was published and still counts: which file, whose, and what it held when it was put there.

A file that holds what was recorded for its path is ours, and may be replaced or removed; anything else is a person's.
Every write is fenced by the lease of the job that publishes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import NameTaken, printable
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest import lease as lease_ops
from content_pipeline.manifest.database import Database, Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.lease import fenced_job
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Lease
from content_pipeline.manifest.schema import PathText, job_items, publications
from content_pipeline.manifest.seen_roots import can_look_at
from content_pipeline.manifest.statements import in_chunks, insert_for


@dataclass(frozen=True)
class Publication:
    """One published file. `file` is its name inside the artifact; `owner` a video's key, or a best-of's name."""

    path: Path
    owner: str
    file: str
    sha256: str
    replaces: str | None = None
    size_bytes: int | None = None
    mtime_ns: int | None = None
    kept: bool = False
    job_id: str | None = None

    @property
    def known(self) -> frozenset[str]:
        """What the file may hold and still be ours."""
        return frozenset() if self.kept else frozenset({self.sha256, self.replaces} - {None})  # type: ignore[arg-type]

    @property
    def is_settled(self) -> bool:
        return self.mtime_ns is not None


def place_of(path: Path | str) -> str:
    """A path with its name in one case and one form, as a file system that ignores case would compare it."""
    folder, _, name = str(path).rpartition("/")
    return f"{folder}/{folded(name)}"


def folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@retry_when_away
class Publications:
    """`lease` is that of the job that publishes; a best-of has none."""

    def __init__(self, database: Database, lease_s: float, lease: Lease | None = None) -> None:
        self._database = database
        self._lease_s = lease_s
        self.lease = lease

    def under(self, lease: Lease | None) -> Publications:
        """The same, with every write fenced by this lease."""
        return Publications(self._database, self._lease_s, lease)

    # --- looking

    def of(self, owner: str) -> list[Publication]:
        """Everything published of a video, in every output folder."""
        return self._select(publications.c.owner == owner)

    def all(self) -> list[Publication]:
        return self._select(sa.true())

    def at(self, paths: Iterable[Path]) -> dict[Path, Publication]:
        """By the path that was asked for: what counts there, under whichever case of its name."""
        places = {path: place_of(path) for path in paths}
        found: dict[str, Publication] = {}
        for some in in_chunks(sorted(set(places.values()))):
            found |= {place_of(row.path): row for row in self._select(publications.c.place.in_(some))}
        return {path: found[place] for path, place in places.items() if place in found}

    def montages(self) -> list[Publication]:
        """In every folder, those included that a person has changed since."""
        return self._select(sa.cast(publications.c.path, sa.Text).like("%.mp4"))

    def unsettled_folders(self) -> set[Path]:
        """Where publishing was interrupted, or goes on right now."""
        query = sa.select(publications.c.path).where(publications.c.mtime_ns.is_(None))
        with self._database.connect() as connection:
            return {Path(path).parent for path in connection.execute(query).scalars()}

    def is_over(self, job_id: str, claim_number: int) -> bool | None:
        """Whether this claim of a job has ended; None when no such job is known."""
        query = sa.select(job_items.c.status, job_items.c.claim_count).where(job_items.c.job_id == job_id)
        with self._database.connect() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else row.status != State.RUNNING or row.claim_count != claim_number

    def has_namesake(self, root: Path, stem: str, video_key: str, size_bytes: int) -> bool:
        """Whether another recording of this library would be published under the same name.

        One that nobody has looked into yet and that has the same size is most likely a copy.
        """
        columns, pattern = job_items.c, f"%/{_escaped(stem)}.%"
        query = sa.select(columns.subject, columns.video_key, columns.input_size).where(
            columns.kind == PROCESSING,
            columns.library == str(root),
            sa.cast(columns.subject, sa.Text).ilike(PathText.stored(pattern), escape="\\"),
        )
        with self._database.connect() as connection:
            rows = connection.execute(query).all()
        return any(
            folded(Path(row.subject).stem) == folded(stem)
            and (row.input_size != size_bytes if row.video_key is None else row.video_key != video_key)
            for row in rows
        )

    def _select(self, condition: sa.ColumnElement[bool]) -> list[Publication]:
        query = sa.select(publications).where(condition).order_by(publications.c.published_at, publications.c.place)
        with self._database.connect() as connection:
            return [_from_row(row) for row in connection.execute(query)]

    # --- publishing; every write is fenced

    def check_lease(self) -> None:
        """Raises when the job was given to another worker."""
        with self._fenced():
            pass

    def announce(self, coming: Collection[Publication], leaving: Collection[Publication] = ()) -> None:
        """Before any file is touched: what will be put in place or taken away. After a crash either may be found."""
        with self._fenced() as tx:
            _write(tx, [replace(one, mtime_ns=None, size_bytes=None) for one in (*coming, *leaving)], self._job_id)

    def settle(self, published: Collection[Publication], gone: Collection[Publication]) -> None:
        """How the files were left, and which no longer count."""
        with self._fenced() as tx:
            for some in in_chunks([place_of(one.path) for one in gone]):
                tx.connection.execute(sa.delete(publications).where(publications.c.place.in_(some)))
            _write(tx, published, self._job_id)

    def forget_missing(self, before: datetime) -> int:
        """Rows of files that a person removed long ago; those that a job still counts on are put back instead."""
        with self._database.connect() as connection:
            old = sa.select(publications.c.path).where(publications.c.published_at < before)
            lost = [path for path in connection.execute(old).scalars() if not Path(path).exists()]
            candidates = [path for path in lost if can_look_at(connection, path)] if lost else []
            outputs = connection.execute(sa.select(job_items.c.output_files)).scalars() if candidates else ()
            wanted = {path for paths in outputs for path in paths}
        missing = [place_of(path) for path in candidates if path not in wanted]
        with self._database.transaction() as tx:
            for some in in_chunks(missing):
                tx.connection.execute(sa.delete(publications).where(publications.c.place.in_(some)))
        return len(missing)

    @property
    def _job_id(self) -> str | None:
        return None if self.lease is None else self.lease.job_id

    @contextmanager
    def _fenced(self) -> Iterator[Transaction]:
        """One short transaction, if the job is still ours; nothing that can block belongs inside."""
        with self._database.transaction() as tx:
            if self.lease is not None:
                fenced_job(tx, self.lease)
                lease_ops.renew(tx, self.lease.worker_id, [self.lease], self._lease_s)
            yield tx


def restore(tx: Transaction, lost: Sequence[tuple[Publication, datetime]]) -> None:
    """Add what other records know, and since when. What the manifest knows of a path is kept."""
    statement = insert_for(tx.connection, publications).on_conflict_do_nothing(index_elements=["place"])
    for some in in_chunks(lost):
        tx.connection.execute(statement, [_as_row(one, one.job_id, at) for one, at in some])


def _write(tx: Transaction, rows: Collection[Publication], job_id: str | None) -> None:
    """One row at a time in one order; a name that is another's raises."""
    for one in sorted(rows, key=lambda one: place_of(one.path)):
        values = _as_row(one, job_id, tx.now)
        insert = insert_for(tx.connection, publications).values(values)
        same_owner = publications.c.owner == insert.excluded.owner
        changed = {name: insert.excluded[name] for name in values if name != "place"}
        done = tx.connection.execute(
            insert.on_conflict_do_update(index_elements=["place"], set_=changed, where=same_owner)
        )
        if done.rowcount != 1:
            raise NameTaken(f"{printable(one.path)} was given to another video meanwhile")


def _as_row(one: Publication, job_id: str | None, now: datetime) -> dict[str, Any]:
    return {
        "place": place_of(one.path),
        "path": str(one.path),
        "owner": one.owner,
        "file": one.file,
        "sha256": one.sha256,
        "replaces": one.replaces,
        "size_bytes": one.size_bytes,
        "mtime_ns": one.mtime_ns,
        "kept": one.kept,
        "job_id": job_id,
        "published_at": now,
    }


def _from_row(row: sa.Row[Any]) -> Publication:
    values = {name: value for name, value in row._mapping.items() if name not in ("place", "published_at")}
    return Publication(**{**values, "path": Path(row.path)})


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
