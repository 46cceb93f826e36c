"""What a job is to be done with. What was asked of calibrations moves there: `metadata` is the user's."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("job_items", sa.Column("options", sa.JSON(none_as_null=True)))
    op.add_column("job_items", sa.Column("force_id", sa.String(26)))
    op.execute("UPDATE job_items SET options = metadata, metadata = '{}' WHERE queue_type = 'calibration'")
