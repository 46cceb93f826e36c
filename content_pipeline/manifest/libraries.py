"""What the manifest knows of each library: the folders that its jobs came from."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.database import Database
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.schema import job_items


@retry_when_away
class Libraries:
    def __init__(self, database: Database) -> None:
        self._database = database

    def roots(self) -> list[Path]:
        """The root folder of every library that has jobs."""
        query = sa.select(job_items.c.library).distinct().order_by(job_items.c.library)
        with self._database.connect() as connection:
            return [Path(library) for library in connection.execute(query).scalars()]

    def unidentified(self, root: Path) -> int:
        """How many of a library's recordings have never been looked into."""
        its = job_items.c.kind == PROCESSING, job_items.c.library == str(root)
        unknown = sa.select(sa.func.count()).where(*its, job_items.c.video_key.is_(None))
        with self._database.connect() as connection:
            return int(connection.execute(unknown).scalar_one())
