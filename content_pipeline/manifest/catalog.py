"""What a plan reads and writes: everything known below a folder, in a few statements whatever its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from content_pipeline.manifest.database import Transaction, connected, transaction
from content_pipeline.manifest.database_retry import patient
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.model import JobKind
from content_pipeline.manifest.schema import PathText, calibrations, job_items, settings_snapshots, videos
from content_pipeline.manifest.transitions import as_job, delete, insert_for, locked, write_counts

RECENT_COSTS = 50
_STATES = {str(state): state for state in State}


class JobSummary(NamedTuple):
    """The part of a job that a plan looks at; a light record, for there may be 100,000."""

    job_id: str
    subject: str
    video_key: str | None
    status: State
    config_hash: str | None
    error_code: str | None
    last_error: str | None
    output_files: list[str]
    stage_keys: dict[str, str]
    results: dict[str, Any]
    options: dict[str, Any] | None = None
    force_id: str | None = None


@dataclass(frozen=True)
class Rename:
    before: Path
    after: Path
    root: Path
    signature: str


@patient
class Catalog:
    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def signatures_under(self, folder: Path) -> dict[str, str]:
        """Every known path below a folder, and what `stat` said of it when it was last looked at."""
        query = sa.select(videos.c.path, videos.c.signature).where(*_below(videos.c.path, folder))
        with connected(self._engine) as connection:
            return {row.path: row.signature for row in connection.execute(query)}

    def jobs_under(self, folder: Path, kind: JobKind = JobKind.PROCESSING) -> list[JobSummary]:
        return self._summaries(job_items.c.kind == kind, *_below(job_items.c.subject, folder))

    def jobs_at(self, paths: Sequence[Path], kind: JobKind = JobKind.PROCESSING) -> list[JobSummary]:
        found: list[JobSummary] = []
        for start in range(0, len(paths), 500):
            chunk = [str(path) for path in paths[start : start + 500]]
            found += self._summaries(job_items.c.kind == kind, job_items.c.subject.in_(chunk))
        return found

    def _summaries(self, *conditions: sa.ColumnElement[bool]) -> list[JobSummary]:
        query = sa.select(*(job_items.c[name] for name in JobSummary._fields)).where(*conditions)
        with connected(self._engine) as connection:
            return [JobSummary(*row)._replace(status=_STATES[row.status]) for row in connection.execute(query)]

    def recipes(self) -> dict[str, dict[str, Any]]:
        """The settings behind every `config_hash` that was ever used."""
        with connected(self._engine) as connection:
            return {row.config_hash: row[1] for row in connection.execute(sa.select(settings_snapshots))}

    def remember_recipe(self, config_hash: str, values: dict[str, Any]) -> None:
        with transaction(self._engine) as tx:
            statement = insert_for(tx, settings_snapshots).on_conflict_do_nothing(index_elements=["config_hash"])
            tx.connection.execute(statement, [{"config_hash": config_hash, "values": values}])

    def recent_costs(self) -> list[dict[str, Any]]:
        """What the last successes cost, stage by stage."""
        query = (
            sa.select(job_items.c.cost)
            .where(job_items.c.status == State.SUCCEEDED)
            .order_by(job_items.c.job_id.desc())
            .limit(RECENT_COSTS)
        )
        with connected(self._engine) as connection:
            return list(connection.execute(query).scalars())

    def next_due(self) -> datetime | None:
        """When the first waiting job may be claimed."""
        query = sa.select(sa.func.min(job_items.c.available_at)).where(job_items.c.status.in_(list(CLAIMABLE)))
        with connected(self._engine) as connection:
            return connection.execute(query).scalar()

    def rename(self, renames: Iterable[Rename]) -> None:
        """A file that moved takes its job and its history along."""
        with transaction(self._engine) as tx:
            for rename in renames:
                _rename(tx, rename)
            write_counts(tx)

    def offline_under(self, folder: Path) -> set[str]:
        query = sa.select(videos.c.path).where(*_below(videos.c.path, folder), videos.c.offline)
        with connected(self._engine) as connection:
            return set(connection.execute(query).scalars())

    def offline(self) -> dict[str, str]:
        """Every known file that was not found when it was last looked for, and its signature."""
        query = sa.select(videos.c.path, videos.c.signature).where(videos.c.offline)
        with connected(self._engine) as connection:
            return {row.path: row.signature for row in connection.execute(query)}

    def libraries(self) -> list[Path]:
        """The root of every library that has jobs."""
        query = sa.select(job_items.c.library).distinct().order_by(job_items.c.library)
        with connected(self._engine) as connection:
            return [Path(library) for library in connection.execute(query).scalars()]

    def unidentified(self, library: Path) -> int:
        """How many of a library's recordings have never been looked into."""
        its = job_items.c.kind == JobKind.PROCESSING, job_items.c.library == str(library)
        unknown = sa.select(sa.func.count()).where(*its, job_items.c.video_key.is_(None))
        with connected(self._engine) as connection:
            return int(connection.execute(unknown).scalar_one())

    def is_empty(self) -> bool:
        """Whether no video is known at all."""
        with connected(self._engine) as connection:
            return connection.execute(sa.select(videos.c.path).limit(1)).first() is None

    def keys(self) -> set[str]:
        """The key of every video that was ever seen."""
        with connected(self._engine) as connection:
            return set(connection.execute(sa.select(videos.c.key)).scalars())

    def stage_keys(self) -> set[str]:
        """Every artifact that a job's last success points to, or an applied calibration."""
        with connected(self._engine) as connection:
            found = connection.execute(sa.select(job_items.c.stage_keys)).scalars()
            applied = connection.execute(sa.select(calibrations.c.key)).scalars()
            return {key for keys in found for key in keys.values()} | set(applied)

    def set_offline(self, paths: Sequence[Path], offline: bool) -> None:
        if not paths:
            return
        with transaction(self._engine) as tx:
            for start in range(0, len(paths), 500):
                chunk = [str(path) for path in paths[start : start + 500]]
                tx.connection.execute(sa.update(videos).where(videos.c.path.in_(chunk)).values(offline=offline))


def _rename(tx: Transaction, rename: Rename) -> None:
    before, after = str(rename.before), str(rename.after)
    tx.connection.execute(sa.delete(videos).where(videos.c.path == after))
    tx.connection.execute(sa.update(videos).where(videos.c.path == before).values(path=after))
    # Of each queue, the job that comes takes the place of the one that was there.
    both = sa.select(job_items).where(job_items.c.subject.in_([before, after])).order_by(job_items.c.job_id)
    jobs = [as_job(row) for row in tx.connection.execute(locked(both))]
    coming = {job.kind for job in jobs if job.subject == before}
    delete(tx, [job for job in jobs if job.subject == after and job.kind in coming])
    tx.connection.execute(sa.update(job_items).where(job_items.c.subject == before).values(subject=after))
    values = {"root": str(rename.root), "signature": rename.signature, "last_seen": tx.now}
    tx.connection.execute(sa.update(videos).where(videos.c.path == after).values(values))
    tx.connection.execute(sa.update(job_items).where(job_items.c.subject == after).values(library=str(rename.root)))


def _below(column: sa.ColumnElement[Any], folder: Path) -> tuple[sa.ColumnElement[bool], ...]:
    """Everything under a folder, as a range that an index serves: `/` is followed by `0`."""
    prefix = str(folder).rstrip("/")
    first, last = (sa.literal(prefix + mark, PathText) for mark in ("/", "0"))
    return column >= first, column < last
