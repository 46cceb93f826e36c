"""What is known of each file: where it is, which video it is, what it held when last read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.database import Database, Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.schema import job_items, videos
from content_pipeline.manifest.statements import below, in_chunks, insert_for, locked
from content_pipeline.manifest.storage_roots import MARK, roots_of
from content_pipeline.manifest.transitions import as_job, delete


@dataclass(frozen=True)
class KnownVideo:
    """`full` is None until the whole file has been read once."""

    path: Path
    root: Path
    key: str
    signature: str
    quick: str
    full: str | None

    @property
    def size_bytes(self) -> int:
        """The third part of a signature."""
        return int(self.signature.split(":")[2])


@dataclass(frozen=True)
class Rename:
    before: Path
    after: Path
    root: Path
    signature: str


@retry_when_away
class Videos:
    def __init__(self, database: Database) -> None:
        self._database = database

    def at(self, path: Path) -> KnownVideo | None:
        found = self._select(videos.c.path == str(path))
        return found[0] if found else None

    def with_key(self, key: str) -> Sequence[KnownVideo]:
        """Every path of this video, the one last seen first."""
        return self._select(videos.c.key == key)

    def first_with_key(self, key: str) -> KnownVideo | None:
        """Of the paths that are there the one that was known first: what the video is called after."""
        order = (videos.c.offline, videos.c.first_seen, videos.c.path)
        query = sa.select(videos).where(videos.c.key == key).order_by(*order).limit(1)
        with self._database.connect() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _known(row)

    def copies(self) -> dict[str, list[Path]]:
        """Of every video that lies at several paths, those, the one known first at the beginning."""
        several = sa.select(videos.c.key).group_by(videos.c.key).having(sa.func.count() > 1)
        order = (videos.c.offline, videos.c.first_seen, videos.c.path)
        query = sa.select(videos.c.key, videos.c.path).where(videos.c.key.in_(several)).order_by(*order)
        found: dict[str, list[Path]] = {}
        with self._database.connect() as connection:
            for row in connection.execute(query):
                found.setdefault(row.key, []).append(Path(row.path))
        return found

    def with_quick(self, quick: str) -> Sequence[KnownVideo]:
        return self._select(videos.c.quick == quick)

    def of_library(self, root: Path) -> Sequence[KnownVideo]:
        """Every file that a library holds, as far as it is known to be there."""
        return self._select(sa.and_(videos.c.root == str(root), sa.not_(videos.c.offline)))

    def all(self) -> Sequence[KnownVideo]:
        return self._select(sa.true())

    def has_key(self, key: str) -> bool:
        return bool(self.with_key(key))

    def signatures_under(self, folder: Path) -> dict[str, str]:
        """Every known path below a folder, and what `stat` said of it when it was last looked at."""
        return self._signatures(*below(videos.c.path, folder, self._database.roots))

    def offline(self) -> dict[str, str]:
        """Every known file that was not found when it was last looked for, and its signature."""
        return self._signatures(videos.c.offline)

    def offline_under(self, folder: Path) -> set[str]:
        return set(self._signatures(*below(videos.c.path, folder, self._database.roots), videos.c.offline))

    def keys(self) -> set[str]:
        """The key of every video that was ever seen."""
        with self._database.connect() as connection:
            return set(connection.execute(sa.select(videos.c.key)).scalars())

    def is_empty(self) -> bool:
        """Whether no video is known at all."""
        with self._database.connect() as connection:
            return connection.execute(sa.select(videos.c.path).limit(1)).first() is None

    def save(self, video: KnownVideo) -> None:
        """Insert or replace what is known of this path."""
        with self._database.transaction() as tx:
            values = {
                "root": str(video.root),
                "key": video.key,
                "signature": stored_signature(tx, video.path, video.signature),
                "quick": video.quick,
                "full": video.full,
                "last_seen": tx.now,
            }
            statement = insert_for(tx.connection, videos).values(path=str(video.path), first_seen=tx.now, **values)
            tx.connection.execute(statement.on_conflict_do_update(index_elements=["path"], set_=values))

    def forget(self, path: Path) -> None:
        with self._database.transaction() as tx:
            tx.connection.execute(sa.delete(videos).where(videos.c.path == str(path)))

    def rename(self, renames: Iterable[Rename]) -> None:
        """A file that moved takes its job and its history along."""
        with self._database.transaction() as tx:
            for rename in renames:
                _rename(tx, rename)

    def set_offline(self, paths: Sequence[Path], offline: bool) -> None:
        if not paths:
            return
        with self._database.transaction() as tx:
            for some in in_chunks([str(path) for path in paths]):
                tx.connection.execute(sa.update(videos).where(videos.c.path.in_(some)).values(offline=offline))

    def _signatures(self, *conditions: sa.ColumnElement[bool]) -> dict[str, str]:
        query = sa.select(videos.c.path, videos.c.signature).where(*conditions)
        with self._database.connect() as connection:
            return {row.path: row.signature for row in connection.execute(query)}

    def _select(self, condition: sa.ColumnElement[bool]) -> Sequence[KnownVideo]:
        query = sa.select(videos).where(condition).order_by(videos.c.last_seen.desc(), videos.c.path)
        with self._database.connect() as connection:
            rows = connection.execute(query).all()
        return [_known(row) for row in rows]


def stored_signature(tx: Transaction, path: Path, signature: str) -> str:
    """Below a root only size and mtime are kept: device, inode and ctime are this host's view of a shared file."""
    stored = roots_of(tx.connection.dialect).to_stored(str(path))
    return shared_signature(signature) if stored.startswith(MARK) else signature


def shared_signature(signature: str) -> str:
    """An empty one, of a file that has to be read again, stays empty."""
    if not signature:
        return signature
    _device, _inode, size_bytes, mtime_ns, _ctime = signature.split(":")
    return f"-:-:{size_bytes}:{mtime_ns}:-"


def _known(row: sa.Row[Any]) -> KnownVideo:
    return KnownVideo(Path(row.path), Path(row.root), row.key, row.signature, row.quick, row.full)


def _rename(tx: Transaction, rename: Rename) -> None:
    before, after = str(rename.before), str(rename.after)
    tx.connection.execute(sa.delete(videos).where(videos.c.path == after))
    tx.connection.execute(sa.update(videos).where(videos.c.path == before).values(path=after))
    # Of each kind, the job that comes takes the place of the one that was there.
    both = sa.select(job_items).where(job_items.c.subject.in_([before, after])).order_by(job_items.c.job_id)
    jobs = [as_job(row) for row in tx.connection.execute(locked(both))]
    coming = {job.kind for job in jobs if job.subject == before}
    delete(tx, [job for job in jobs if job.subject == after and job.kind in coming])
    tx.connection.execute(sa.update(job_items).where(job_items.c.subject == before).values(subject=after))
    signature = stored_signature(tx, rename.after, rename.signature)
    values = {"root": str(rename.root), "signature": signature, "last_seen": tx.now}
    tx.connection.execute(sa.update(videos).where(videos.c.path == after).values(values))
    tx.connection.execute(sa.update(job_items).where(job_items.c.subject == after).values(library=str(rename.root)))
