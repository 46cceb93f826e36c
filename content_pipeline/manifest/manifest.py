"""The manifest: one object, whose parts hold the operations. What concerns all of them at once is here."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest import restore as restoring
from content_pipeline.manifest.breakers import Breakers
from content_pipeline.manifest.calibrations import Calibrations
from content_pipeline.manifest.check import Violation, check
from content_pipeline.manifest.database import Database
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.jobs import Jobs
from content_pipeline.manifest.libraries import Libraries
from content_pipeline.manifest.model import LEASE_S
from content_pipeline.manifest.prune import prune
from content_pipeline.manifest.publications import Publications
from content_pipeline.manifest.recipes import Recipes
from content_pipeline.manifest.restore import RecordedVideo, RestoreCounts
from content_pipeline.manifest.rights import Rights, rights_of
from content_pipeline.manifest.roots import Roots
from content_pipeline.manifest.schema import calibrations, job_items, metadata, storage_roots
from content_pipeline.manifest.videos import Videos
from content_pipeline.manifest.workers import Workers


@retry_when_away
class Manifest:
    """`now` and `random` are given in tests; else they are the database's clock and Python's random numbers.

    `roots`: where this host has mounted shared storage, by name.
    """

    def __init__(
        self,
        engine: sa.Engine,
        now: Callable[[], datetime] | None = None,
        random: Callable[[], float] = random.random,
        lease_s: float = LEASE_S,
        roots: Mapping[str, Path] | None = None,
    ) -> None:
        self._database = Database(engine, now)
        self.jobs = Jobs(self._database, random, lease_s)
        self.videos = Videos(self._database)
        self.libraries = Libraries(self._database)
        self.calibrations = Calibrations(self._database)
        self.breakers = Breakers(self._database)
        self.publications = Publications(self._database, lease_s)
        self.recipes = Recipes(self._database)
        self.workers = Workers(self._database)
        self.roots = Roots(self._database, {} if roots is None else roots)

    @property
    def name(self) -> str:
        """The database as it is shown to people: a path, or a URL without its password."""
        return self._database.name

    def set_retry_time(self, retry_s: float) -> None:
        """How long every operation waits from now on for a database that is away; by default none does."""
        self._database.retry_s = retry_s

    def close(self) -> None:
        """Close the connections; the next operation opens new ones."""
        self._database.close()

    def check(self, digest_of: Callable[[str], str | None] | None = None) -> Sequence[Violation]:
        """What is wrong, if anything; `digest_of` gives the sha256 of an output, or None when it is not there."""
        return check(self._database, digest_of)

    def rights(self) -> Rights | None:
        """What the database's role may do with it; None on SQLite."""
        with self._database.connect() as connection:
            return rights_of(connection)

    def artifact_keys(self) -> set[str]:
        """The key of every artifact that a job's last success points to, or an applied calibration."""
        with self._database.connect() as connection:
            of_jobs = connection.execute(sa.select(job_items.c.stage_keys)).scalars()
            applied = connection.execute(sa.select(calibrations.c.key)).scalars()
            return {key for keys in of_jobs for key in keys.values()} | set(applied)

    def prune(
        self, before: datetime, spared: Collection[str] = (), video_kinds: Collection[str] = (PROCESSING,)
    ) -> dict[str, int]:
        """`spared`: files that are not there, and not gone either. `video_kinds`: the jobs whose subject is a file."""
        with self._database.transaction() as tx:
            return prune(tx, before, spared, video_kinds)

    def reset(self) -> None:
        """Forget everything, but for how storage is called."""
        with self._database.transaction() as tx:
            for table in reversed(metadata.sorted_tables):
                if table is storage_roots:
                    continue
                tx.connection.execute(sa.delete(table))

    def restore(
        self, recorded: Sequence[RecordedVideo], recipes: Mapping[str, dict[str, Any]], reason: str
    ) -> RestoreCounts:
        """Add what was lost, from other records. Idempotent: what is known is never overwritten."""
        with self._database.transaction() as tx:
            return restoring.restore(tx, recorded, recipes, reason)
