"""What a job requires of its worker, and what workers can do. Adds only: workers of the version before go on.

They claim whatever is due, also what requires something: route nothing until all are of this version.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("job_items", sa.Column("requires", sa.String(40)))
    op.add_column("workers", sa.Column("capabilities", sa.JSON))
    requiring = sa.text("requires IS NOT NULL")
    op.create_index(
        "jobs_that_require",
        "job_items",
        ["requires", "status"],
        postgresql_where=requiring,
        sqlite_where=requiring,
    )
