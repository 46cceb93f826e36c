"""Bringing a database to the newest schema, with alembic; loaded only when there is something to do."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from content_pipeline.manifest.database_owner import APPLICATION_ID
from content_pipeline.manifest.sqlite import is_file
from content_pipeline.system.private_files import close_to_others

LOCK_NUMBER = 7283641


def upgrade(engine: sa.Engine, to: str = "head") -> None:
    """Safe to call from several processes at once: the first does it, the others find it done."""
    with engine.connect() as connection:
        if is_file(engine):
            close_to_others(Path(str(engine.url.database)))
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({LOCK_NUMBER})"))
        config = Config()
        # alembic's settings take `%` for the start of a variable.
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, to)
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
        connection.commit()
