"""A job is about a subject, which may be a video or a library; its kind says which, and what is done with it."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    # Indexes and constraints follow their columns, in SQLite as in Postgres.
    op.alter_column("job_counts", "queue_type", new_column_name="kind")
    op.alter_column("job_items", "queue_type", new_column_name="kind")
    op.alter_column("job_items", "video_path", new_column_name="subject")
