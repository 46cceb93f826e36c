"""The manifest's tables. A change here needs a migration beside it; a test compares the two."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.breaker import LIBRARY
from content_pipeline.manifest.storage_roots import roots_of

metadata = sa.MetaData()


class PathText(sa.types.TypeDecorator[str]):
    """A path as text that any database stores, also when its bytes are no UTF-8, in the order of its bytes.

    Undecodable bytes, which Python keeps as lone surrogates, move to a private plane that no file
    name uses, and back when read. A path below a root of this engine is stored by the root's name.
    """

    impl = sa.Text
    cache_ok = True

    _SHIFT = 0x10FC80 - 0xDC80

    def load_dialect_impl(self, dialect: Any) -> Any:
        # In a language's own order `/` counts for nothing, and what lies below a folder is no range.
        return dialect.type_descriptor(sa.Text(collation="C") if dialect.name == "postgresql" else sa.Text())

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else self.stored(roots_of(dialect).to_stored(value))

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else roots_of(dialect).to_local(self.original(value))

    @classmethod
    def stored(cls, path: str) -> str:
        return path if path.isascii() else cls._moved(path, 0xDC80, cls._SHIFT)

    @classmethod
    def original(cls, stored: str) -> str:
        return stored if stored.isascii() else cls._moved(stored, 0x10FC80, -cls._SHIFT)

    @staticmethod
    def _moved(text: str, first: int, shift: int) -> str:
        return "".join(chr(ord(char) + shift) if first <= ord(char) < first + 128 else char for char in text)


class ScopeText(PathText):
    """What a breaker is about; `library:` is followed by a path."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        if value is None or not value.startswith(LIBRARY):
            return super().process_bind_param(value, dialect)
        return f"{LIBRARY}{super().process_bind_param(value.removeprefix(LIBRARY), dialect)}"

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        if value is None or not value.startswith(LIBRARY):
            return super().process_result_value(value, dialect)
        return f"{LIBRARY}{super().process_result_value(value.removeprefix(LIBRARY), dialect)}"


class PathsJson(sa.types.TypeDecorator[Any]):
    """JSON that holds paths, each a text of its own: those below a root are stored by its name."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return roots_of(dialect).json_to_stored(value)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return roots_of(dialect).json_to_local(value)


class Instant(sa.types.TypeDecorator[datetime]):
    """A moment in UTC; SQLite keeps no time zone, so it is given back here."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


videos = sa.Table(
    "videos",
    metadata,
    sa.Column("path", PathText, primary_key=True),
    sa.Column("root", PathText, nullable=False),
    sa.Column("key", sa.String(80), nullable=False, index=True),
    sa.Column("signature", sa.String(120), nullable=False),
    sa.Column("quick", sa.String(80), nullable=False, index=True),
    sa.Column("full", sa.String(80), nullable=True),
    sa.Column("first_seen", Instant, nullable=False),
    sa.Column("last_seen", Instant, nullable=False),
    sa.Column("offline", sa.Boolean, nullable=False, server_default=sa.false()),
)

job_items = sa.Table(
    "job_items",
    metadata,
    sa.Column("job_id", sa.String(26), primary_key=True),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("library", PathText, nullable=False),
    sa.Column("subject", PathText, nullable=False),
    sa.Column("video_key", sa.String(80), index=True),
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
    sa.Column("progress", sa.JSON(none_as_null=True)),
    sa.Column("error_code", sa.String(40)),
    sa.Column("last_error", sa.Text),
    sa.Column("output_files", PathsJson, nullable=False),
    sa.Column("output_hashes", PathsJson, nullable=False),
    sa.Column("results", PathsJson, nullable=False),
    sa.Column("cost", sa.JSON, nullable=False),
    sa.Column("metadata", sa.JSON, nullable=False),
    # What it is to be done with; without, the settings count as they are when it runs.
    sa.Column("options", PathsJson(none_as_null=True)),
    # Asks that nothing older be reused, until the job succeeds.
    sa.Column("force_id", sa.String(26)),
    # The capability that a worker must have to claim it.
    sa.Column("requires", sa.String(40)),
    sa.UniqueConstraint("kind", "subject", name="one_job_per_subject"),
)
sa.Index(
    "jobs_to_claim",
    job_items.c.kind,
    job_items.c.status,
    job_items.c.priority.desc(),
    job_items.c.available_at,
    job_items.c.job_id,
)
sa.Index("jobs_to_rescue", job_items.c.status, job_items.c.lease_expires_at)
sa.Index("jobs_of_worker", job_items.c.worker_id, job_items.c.status)
_REQUIRING = job_items.c.requires.is_not(None)
sa.Index(
    "jobs_that_require",
    job_items.c.requires,
    job_items.c.status,
    postgresql_where=_REQUIRING,
    sqlite_where=_REQUIRING,
)

state_transitions = sa.Table(
    "state_transitions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("job_id", sa.String(26), nullable=False, index=True),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("from_state", sa.String(10), nullable=False),
    sa.Column("to_state", sa.String(10), nullable=False),
    sa.Column("timestamp", Instant, nullable=False),
    sa.Column("worker_id", sa.String(200)),
    sa.Column("run_id", sa.String(64)),
    sa.Column("reason", sa.String(200), nullable=False),
    sa.Column("error_snippet", sa.String(200)),
    sqlite_autoincrement=True,
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("job_id", sa.String(26), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("worker_id", sa.String(200), nullable=False),
    sa.Column("run_id", sa.String(64)),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    sa.Column("outcome", sa.String(12)),
    sa.Column("error_code", sa.String(40)),
    sa.Column("error", sa.Text),
    sa.Column("cost", sa.JSON, nullable=False),
)

# How many jobs are in each state, kept up by every change. Several slots, so that workers do not wait for each
# other's lock on one row; the sum counts.
job_counts = sa.Table(
    "job_counts",
    metadata,
    sa.Column("kind", sa.String(20), primary_key=True),
    sa.Column("status", sa.String(10), primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    sa.Column("jobs", sa.Integer, nullable=False),
)

breakers = sa.Table(
    "breakers",
    metadata,
    sa.Column("scope", ScopeText, primary_key=True),
    sa.Column("error_code", sa.String(40), primary_key=True),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("openings", sa.Integer, nullable=False),
    sa.Column("until", Instant),
    sa.Column("probe", sa.String(26)),
    sa.Column("message", sa.Text),
)

# Who works here. Of interest to people: what happens to a job is decided by its lease alone.
workers = sa.Table(
    "workers",
    metadata,
    sa.Column("worker_id", sa.String(200), primary_key=True),
    sa.Column("host", sa.String(80), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("version", sa.String(40), nullable=False),
    sa.Column("role", sa.String(20), nullable=False),
    sa.Column("slots", sa.Integer, nullable=False),
    sa.Column("lease_s", sa.Float(53), nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("last_heartbeat", Instant, nullable=False),
    sa.Column("capabilities", sa.JSON),
)

# Folders of shared storage by name, and the id of the marker in each.
storage_roots = sa.Table(
    "storage_roots",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("marker", sa.String(40), nullable=False),
    sa.Column("added_at", Instant, nullable=False),
)

# What a library's videos are detected with, in place of what the settings say.
calibrations = sa.Table(
    "calibrations",
    metadata,
    sa.Column("library", PathText, primary_key=True),
    sa.Column("preset", sa.String(40), nullable=False),
    sa.Column("setting", sa.String(40), nullable=False),
    sa.Column("value", sa.Float(53), nullable=False),
    sa.Column("key", sa.String(64), nullable=False),
    sa.Column("applied_at", Instant, nullable=False),
)

# The settings behind a `config_hash`, so that a plan can say which one changed from what to what.
settings_snapshots = sa.Table(
    "settings_snapshots",
    metadata,
    sa.Column("config_hash", sa.String(64), primary_key=True),
    sa.Column("values", sa.JSON, nullable=False),
)

# Every file that was published and still counts, in whichever output folder. `place` is its path with the name in one
# case, so that no two names differ by case alone. While a file is being put in place, `sha256` is what is coming,
# `replaces` what may still be there, and `mtime_ns` is empty. `kept` marks one that a person has changed since: theirs.
publications = sa.Table(
    "publications",
    metadata,
    sa.Column("place", PathText, primary_key=True),
    sa.Column("path", PathText, nullable=False),
    sa.Column("owner", sa.String(140), nullable=False, index=True),
    sa.Column("file", sa.String(40), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("replaces", sa.String(64)),
    sa.Column("size_bytes", sa.BigInteger),
    sa.Column("mtime_ns", sa.BigInteger),
    sa.Column("kept", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("job_id", sa.String(26)),
    sa.Column("published_at", Instant, nullable=False),
)
