"""Whether this program may work with a manifest that a newer version has migrated.

A migration that only adds leaves `oldest_program` as it is: programs from that schema on go on working. One that takes
away sets it to its own revision: an older program claims nothing more, says so, and loses nothing.
"""

from __future__ import annotations

import sqlalchemy as sa

from content_pipeline.errors import NewerSchema

SCHEMA_VERSION = "0009"

_MARKS = sa.text("SELECT version_num, oldest_program FROM alembic_version")


def expect_compatible(connection: sa.Connection, name: str) -> None:
    """Raises when a newer version has changed what this one relies on. `name` is the database's, for people."""
    marks = connection.execute(_MARKS).one_or_none()
    if marks is None or marks.version_num <= SCHEMA_VERSION:
        return
    if marks.oldest_program is None or marks.oldest_program > SCHEMA_VERSION:
        raise NewerSchema(
            f"the manifest {name} has schema {marks.version_num}, and this program knows schemas up to "
            f"{SCHEMA_VERSION}: it was used by a newer version of content-ai"
        )
