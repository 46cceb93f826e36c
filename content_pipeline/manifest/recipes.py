"""The recipes of results: the settings and code versions behind every `config_hash` that was ever used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from content_pipeline.manifest.database import Database, Transaction
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.schema import settings_snapshots
from content_pipeline.manifest.statements import insert_for


@retry_when_away
class Recipes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> dict[str, dict[str, Any]]:
        """By their `config_hash`."""
        with self._database.connect() as connection:
            return {row.config_hash: row[1] for row in connection.execute(sa.select(settings_snapshots))}

    def remember(self, config_hash: str, values: dict[str, Any]) -> None:
        with self._database.transaction() as tx:
            add_recipes(tx, {config_hash: values})


def add_recipes(tx: Transaction, recipes: Mapping[str, dict[str, Any]]) -> None:
    """Add those that are not known yet, in one order that all share, so that there is no deadlock."""
    if recipes:
        statement = insert_for(tx.connection, settings_snapshots)
        rows = [{"config_hash": digest, "values": values} for digest, values in sorted(recipes.items())]
        tx.connection.execute(statement.on_conflict_do_nothing(index_elements=["config_hash"]), rows)
