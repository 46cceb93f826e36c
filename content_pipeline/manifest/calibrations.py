"""Calibrations that were applied: the threshold of a library, and the settings as its videos see them.

The one place where a library's threshold meets the settings: plans, keys and records all ask here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.job_kinds import CALIBRATION
from content_pipeline.manifest import worker_ops
from content_pipeline.manifest.database import Database, Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lease import fenced_job
from content_pipeline.manifest.model import JobResult, Lease
from content_pipeline.manifest.operator_ops import cancel
from content_pipeline.manifest.schema import calibrations as table
from content_pipeline.manifest.schema import videos
from content_pipeline.manifest.statements import insert_for
from content_pipeline.settings import Settings


@dataclass(frozen=True)
class AppliedCalibration:
    """`key` names the artifact that says how the value was found; `preset` the detector that it was found for."""

    library: str
    preset: str
    setting: str
    value: float
    key: str
    applied_at: datetime | None = None  # when it is read back

    @property
    def name(self) -> str:
        return f"detection.{self.setting}"

    def counts_for(self, settings: Settings) -> bool:
        """Not when they ask for another detector, or for no calibrations."""
        return settings.calibration.use and settings.detection.preset == self.preset

    def onto(self, settings: Settings) -> Settings:
        """The settings with this value in them, if it counts."""
        if not self.counts_for(settings):
            return settings
        return settings.model_copy(
            update={"detection": settings.detection.model_copy(update={self.setting: self.value})}
        )


@dataclass(frozen=True)
class CalibrationReset:
    """What a reset found: what counted until then, how many that waited are cancelled, and how many are to stop."""

    was_applied: AppliedCalibration | None
    cancelled: int
    asked_to_stop: int


@retry_when_away
class Calibrations:
    """A video whose file lies in several libraries follows the first of them, in order of path, that has one.

    Equal copies share one key and one output: if each followed its own library, each would undo the
    other's result, again and again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[AppliedCalibration]:
        with self._database.connect() as connection:
            found = connection.execute(sa.select(table).order_by(table.c.library))
            return [AppliedCalibration(**row._mapping) for row in found]

    def of_library(self, library: Path) -> AppliedCalibration | None:
        return self._first(sa.select(table).where(table.c.library == str(library)))

    def of_video(self, video_key: str) -> AppliedCalibration | None:
        of_it = sa.select(table).join(videos, videos.c.root == table.c.library).where(videos.c.key == video_key)
        return self._first(of_it.where(sa.not_(videos.c.offline)).order_by(table.c.library).limit(1))

    def of_videos(self) -> dict[str, AppliedCalibration]:
        """The same for every video that follows one, by key."""
        with self._database.connect() as connection:
            known = {row.library: AppliedCalibration(**row._mapping) for row in connection.execute(sa.select(table))}
            if not known:
                return {}
            first = sa.select(videos.c.key, sa.func.min(videos.c.root)).where(
                videos.c.root.in_(list(known)), sa.not_(videos.c.offline)
            )
            return {key: known[library] for key, library in connection.execute(first.group_by(videos.c.key))}

    def settings_for(self, settings: Settings, video_key: str) -> Settings:
        """The settings as this video sees them, at this moment."""
        applied = self.of_video(video_key)
        return settings if applied is None else applied.onto(settings)

    def succeed_job(self, lease: Lease, result: JobResult, applied: AppliedCalibration | None) -> bool:
        """End a calibration's job and apply what it found, atomically.

        False when it was to stop: then it is cancelled, for whoever asked was told that nothing would be applied.
        """
        with self._database.transaction() as tx:
            if fenced_job(tx, lease).cancel_requested:
                worker_ops.stop_cancelled(tx, lease)
                return False
            worker_ops.succeed(tx, lease, result)
            if applied is not None:
                _apply(tx, applied)
            return True

    def reset(self, library: str) -> CalibrationReset:
        """Go by the settings again: no calibration counts that was applied, waits or is being made."""
        with self._database.transaction() as tx:
            cancelled, asked_to_stop = cancel(tx, JobFilter(kind=CALIBRATION, library=library))
            return CalibrationReset(_forget(tx, library), cancelled, asked_to_stop)

    def _first(self, query: sa.Select[Any]) -> AppliedCalibration | None:
        with self._database.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else AppliedCalibration(**row._mapping)


def _forget(tx: Transaction, library: str) -> AppliedCalibration | None:
    """The settings count again; returns what counted until then."""
    its = table.c.library == library
    row = tx.connection.execute(sa.select(table).where(its)).first()
    tx.connection.execute(sa.delete(table).where(its))
    return None if row is None else AppliedCalibration(**row._mapping)


def _apply(tx: Transaction, applied: AppliedCalibration) -> None:
    """Takes the place of what was applied to the library before."""
    values = {**asdict(applied), "applied_at": tx.now}
    statement = insert_for(tx.connection, table).values(values)
    changed = {name: value for name, value in values.items() if name != "library"}
    tx.connection.execute(statement.on_conflict_do_update(index_elements=["library"], set_=changed))
