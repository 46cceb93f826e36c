"""The threshold that was applied to a library."""

import sqlalchemy as sa
from alembic import op

from content_pipeline.manifest.schema import Instant, PathText

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "calibrations",
        sa.Column("library", PathText, nullable=False),
        sa.Column("preset", sa.String(40), nullable=False),
        sa.Column("setting", sa.String(40), nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("applied_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("library"),
    )
