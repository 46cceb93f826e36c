"""The videos that a scan found."""

import sqlalchemy as sa
from alembic import op

from content_pipeline.manifest.schema import Instant, PathText

revision = "0001"
down_revision = None


def upgrade() -> None:
    # The first release made this table without writing down a version.
    if sa.inspect(op.get_bind()).has_table("videos"):
        return
    op.create_table(
        "videos",
        sa.Column("path", PathText, primary_key=True),
        sa.Column("root", PathText, nullable=False),
        sa.Column("key", sa.String(80), nullable=False, index=True),
        sa.Column("signature", sa.String(120), nullable=False),
        sa.Column("quick", sa.String(80), nullable=False, index=True),
        sa.Column("full", sa.String(80), nullable=True),
        sa.Column("first_seen", Instant, nullable=False),
        sa.Column("last_seen", Instant, nullable=False),
    )
