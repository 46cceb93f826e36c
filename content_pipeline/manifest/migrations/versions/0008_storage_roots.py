"""Folders of shared storage by name, so that hosts may mount them at different places.

Adds only: workers of the version before go on, until the first root is added (`manifest/add_root.py`).
"""

import sqlalchemy as sa
from alembic import op

from content_pipeline.manifest.schema import Instant

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "storage_roots",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("marker", sa.String(40), nullable=False),
        sa.Column("added_at", Instant, nullable=False),
    )
