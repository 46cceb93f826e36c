"""What is known of each file: where it is, which video it is, what it held when last read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.database import connected, transaction
from content_pipeline.manifest.database_retry import patient
from content_pipeline.manifest.schema import videos
from content_pipeline.manifest.transitions import insert_for


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


def utc_now() -> datetime:
    return datetime.now(UTC)


@patient
class VideoStore:
    def __init__(self, engine: sa.Engine, now: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._now = now

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
        with connected(self._engine) as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _known(row)

    def copies(self) -> dict[str, list[Path]]:
        """Of every video that lies at several paths, those, the one known first at the beginning."""
        several = sa.select(videos.c.key).group_by(videos.c.key).having(sa.func.count() > 1)
        order = (videos.c.offline, videos.c.first_seen, videos.c.path)
        query = sa.select(videos.c.key, videos.c.path).where(videos.c.key.in_(several)).order_by(*order)
        found: dict[str, list[Path]] = {}
        with connected(self._engine) as connection:
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

    def save(self, video: KnownVideo) -> None:
        """Insert or replace what is known of this path."""
        now = self._now()
        values = {
            "root": str(video.root),
            "key": video.key,
            "signature": video.signature,
            "quick": video.quick,
            "full": video.full,
            "last_seen": now,
        }
        with transaction(self._engine, now) as tx:
            statement = insert_for(tx, videos).values(path=str(video.path), first_seen=now, **values)
            tx.connection.execute(statement.on_conflict_do_update(index_elements=["path"], set_=values))

    def forget(self, path: Path) -> None:
        with transaction(self._engine, self._now()) as tx:
            tx.connection.execute(sa.delete(videos).where(videos.c.path == str(path)))

    def _select(self, condition: sa.ColumnElement[bool]) -> Sequence[KnownVideo]:
        query = sa.select(videos).where(condition).order_by(videos.c.last_seen.desc(), videos.c.path)
        with connected(self._engine) as connection:
            rows = connection.execute(query).all()
        return [_known(row) for row in rows]


def _known(row: sa.Row[Any]) -> KnownVideo:
    return KnownVideo(Path(row.path), Path(row.root), row.key, row.signature, row.quick, row.full)
