"""Jobs, their history and attempts, counts, breakers, and the settings behind them."""

import sqlalchemy as sa
from alembic import op

from content_pipeline.manifest.schema import Instant, PathText

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.String(26), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("worker_id", sa.String(200), nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("ended_at", Instant),
        sa.Column("outcome", sa.String(12)),
        sa.Column("error_code", sa.String(40)),
        sa.Column("error", sa.Text),
        sa.Column("cost", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number"),
    )
    op.create_table(
        "breakers",
        sa.Column("scope", PathText, nullable=False),
        sa.Column("error_code", sa.String(40), nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("openings", sa.Integer, nullable=False),
        sa.Column("until", Instant),
        sa.Column("probe", sa.String(26)),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("scope", "error_code"),
    )
    op.create_table(
        "job_counts",
        sa.Column("queue_type", sa.String(20), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("jobs", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("queue_type", "status", "slot"),
    )
    op.create_table(
        "job_items",
        sa.Column("job_id", sa.String(26), nullable=False),
        sa.Column("queue_type", sa.String(20), nullable=False),
        sa.Column("library", PathText, nullable=False),
        sa.Column("video_path", PathText, nullable=False),
        sa.Column("video_key", sa.String(80)),
        sa.Column("input_hash_quick", sa.String(140)),
        sa.Column("input_hash_full", sa.String(140)),
        sa.Column("input_size", sa.BigInteger),
        sa.Column("config_hash", sa.String(64)),
        sa.Column("stage_keys", sa.JSON, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("claim_count", sa.Integer, nullable=False),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.Column("max_attempts", sa.Integer, nullable=False),
        sa.Column("crash_count", sa.Integer, nullable=False),
        sa.Column("max_crashes", sa.Integer, nullable=False),
        sa.Column("available_at", Instant, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("started_at", Instant),
        sa.Column("completed_at", Instant),
        sa.Column("lease_token", sa.String(26)),
        sa.Column("worker_id", sa.String(200)),
        sa.Column("last_heartbeat", Instant),
        sa.Column("lease_expires_at", Instant),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("progress", sa.JSON),
        sa.Column("error_code", sa.String(40)),
        sa.Column("last_error", sa.Text),
        sa.Column("output_files", sa.JSON, nullable=False),
        sa.Column("output_hashes", sa.JSON, nullable=False),
        sa.Column("results", sa.JSON, nullable=False),
        sa.Column("cost", sa.JSON, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
        sa.UniqueConstraint("queue_type", "video_path", name="one_job_per_subject"),
    )
    op.create_index("ix_job_items_video_key", "job_items", ["video_key"], unique=False)
    op.create_index("jobs_of_worker", "job_items", ["worker_id", "status"], unique=False)
    op.create_index(
        "jobs_to_claim",
        "job_items",
        ["queue_type", "status", sa.literal_column("priority DESC"), "available_at", "job_id"],
        unique=False,
    )
    op.create_index("jobs_to_rescue", "job_items", ["status", "lease_expires_at"], unique=False)
    op.create_table(
        "settings_snapshots",
        sa.Column("config_hash", sa.String(64), nullable=False),
        sa.Column("values", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("config_hash"),
    )
    op.create_table(
        "state_transitions",
        sa.Column("id", sa.Integer, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(26), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("from_state", sa.String(10), nullable=False),
        sa.Column("to_state", sa.String(10), nullable=False),
        sa.Column("timestamp", Instant, nullable=False),
        sa.Column("worker_id", sa.String(200)),
        sa.Column("run_id", sa.String(64)),
        sa.Column("reason", sa.String(200), nullable=False),
        sa.Column("error_snippet", sa.String(200)),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_state_transitions_job_id", "state_transitions", ["job_id"], unique=False)
    for column in ("path", "root"):
        if op.get_bind().dialect.name == "postgresql":
            op.alter_column("videos", column, type_=PathText, existing_nullable=False)
    op.add_column("videos", sa.Column("offline", sa.Boolean, server_default=sa.false(), nullable=False))
