"""Bringing a database to the newest schema, with alembic; loaded only when there is something to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from content_pipeline.manifest.database_owner import APPLICATION_ID
from content_pipeline.manifest.sqlite import is_file
from content_pipeline.system.private_files import close_to_others

LOCK_NUMBER = 7283641
LOCK_TIMEOUT_MS = 30_000


def upgrade(engine: sa.Engine, to: str = "head", make_schema: Callable[[sa.Connection], None] | None = None) -> None:
    """Safe to call from several processes at once: the first does it, the others find it done.

    Workers of the version before may be at work meanwhile: see *Migrations* in CONTRIBUTING.md.
    """
    with engine.connect() as connection:
        if is_file(engine):
            close_to_others(Path(str(engine.url.database)))
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({LOCK_NUMBER})"))
            # Who waits for a table's lock keeps all others waiting behind it: a worker's transactions are short.
            connection.execute(sa.text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))
            if make_schema is not None:
                make_schema(connection)
        config = Config()
        # alembic's settings take `%` for the start of a variable.
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, to)
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
        connection.commit()
