"""Who works on this manifest, idle workers included; and the oldest schema whose programs still work with it.

Adds only: workers of the version before go on.
"""

import sqlalchemy as sa
from alembic import op

from content_pipeline.manifest.schema import Instant

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.String(200), primary_key=True),
        sa.Column("host", sa.String(80), nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("version", sa.String(40), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("lease_s", sa.Float(53), nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("last_heartbeat", Instant, nullable=False),
    )
    # Beside the revision, which is there whatever a person clears.
    op.add_column("alembic_version", sa.Column("oldest_program", sa.String(32)))
    op.execute("UPDATE alembic_version SET oldest_program = '0006'")
