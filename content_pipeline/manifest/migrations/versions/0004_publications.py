"""Every file that was published and still counts, in every output folder."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql, sqlite

from content_pipeline.manifest.publications import place_of
from content_pipeline.manifest.schema import Instant, PathText

revision = "0004"
down_revision = "0003"

ROWS_AT_A_TIME = 500
ENDINGS = {".mp4": "montage.mp4", ".json": "montage.json", ".sheet.jpg": "sheet.jpg", ".plot.png": "plot.png"}

# As they are at this revision, whatever becomes of them later.
_jobs = sa.table(
    "job_items",
    sa.column("job_id", sa.String),
    sa.column("video_key", sa.String),
    sa.column("output_hashes", sa.JSON),
    sa.column("results", sa.JSON),
    sa.column("completed_at", Instant),
)
_publications = sa.table(
    "publications",
    sa.column("place", PathText),
    sa.column("path", PathText),
    sa.column("owner", sa.String),
    sa.column("file", sa.String),
    sa.column("sha256", sa.String),
    sa.column("size_bytes", sa.BigInteger),
    sa.column("mtime_ns", sa.BigInteger),
    sa.column("kept", sa.Boolean),
    sa.column("job_id", sa.String),
    sa.column("published_at", Instant),
)


def upgrade() -> None:
    op.create_table(
        "publications",
        sa.Column("place", PathText, nullable=False),
        sa.Column("path", PathText, nullable=False),
        sa.Column("owner", sa.String(140), nullable=False),
        sa.Column("file", sa.String(40), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("replaces", sa.String(64)),
        sa.Column("size_bytes", sa.BigInteger),
        sa.Column("mtime_ns", sa.BigInteger),
        sa.Column("kept", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("job_id", sa.String(26)),
        sa.Column("published_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("place"),
    )
    op.create_index("ix_publications_owner", "publications", ["owner"])
    _fill()


def _fill() -> None:
    """What each job published last; copies of a recording share theirs."""
    connection = op.get_bind()
    insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(_publications)
    statement = insert.on_conflict_do_nothing(index_elements=["place"])
    last = ""
    while True:
        query = sa.select(_jobs).where(_jobs.c.job_id > last).order_by(_jobs.c.job_id).limit(ROWS_AT_A_TIME)
        jobs = connection.execute(query).all()
        if not jobs:
            return
        last = jobs[-1].job_id
        rows = [row for job in jobs for row in _published(job)]
        if rows:
            connection.execute(statement, rows)


def _published(job: sa.Row[Any]) -> Iterator[dict[str, Any]]:
    stats = job.results.get("output_stats", {})
    for path, sha256 in job.output_hashes.items():
        file = next((name for ending, name in ENDINGS.items() if path.endswith(ending)), None)
        if file is None or job.video_key is None:
            continue
        size_bytes, mtime_ns = stats.get(path, (None, None))
        yield {
            "place": place_of(path),
            "path": path,
            "owner": job.video_key,
            "file": file,
            "sha256": sha256,
            "size_bytes": size_bytes,
            "mtime_ns": mtime_ns,
            "kept": False,
            "job_id": job.job_id,
            "published_at": datetime.now(UTC) if job.completed_at is None else job.completed_at,
        }
