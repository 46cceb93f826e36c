"""`content-ai database`: move a state folder to Postgres, and make or migrate tables with the owner's rights."""

from __future__ import annotations

import sys

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_document, print_note, print_result
from content_pipeline.errors import BadSettings, counted
from content_pipeline.services import moving
from content_pipeline.services.moving import Moved
from content_pipeline.settings.database_url import DatabaseUrl, masked


@click.group()
def database() -> None:
    """Move to Postgres, and migrate tables."""


@database.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def upgrade(as_json: bool, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> int:
    """Make the tables of the database that `db` names, or bring them to the schema of this version.

    Every command that may does so by itself. Where workers have a role without that right, run this first, with the
    owner's role.
    """
    document = moving.upgrade(resolve(config_file, state_dir, assignments).settings)
    if as_json:
        print_document(document)
    else:
        records = " Dagster's records are there, too." if document.dagster_records else ""
        print_result(f"{document.database} is up to date.{records}")
    return 0


@database.command()
@click.option("--from", "source", type=click.Path(dir_okay=False), help="The manifest [queue.db in the state folder].")
@click.option("--to", "target", help="The Postgres database; by default CONTENT_AI_DB, or you are asked.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def move(
    source: str | None,
    target: str | None,
    as_json: bool,
    config_file: str | None,
    state_dir: str | None,
    assignments: tuple[str, ...],
) -> int:
    """Copy the manifest and Dagster's records from SQLite to Postgres, in one transaction, and compare every row.

    Stop `content-ai dev` and all workers first. The SQLite files are only read, and stay as a backup. Run again, it
    finds its work done.
    """
    settings = resolve(config_file, state_dir, assignments).settings
    to = _target(target, settings.db)
    # Where `db` names the target, the source is where the manifest is by default.
    of_source = settings.model_copy(update={"db": None if source is None else DatabaseUrl(source)})
    document = moving.move_to_postgres(of_source.model_copy(update={"dagster_storage": "sqlite"}), to)
    print_document(document) if as_json else _print(document)
    return 0


def _target(given: str | None, db: DatabaseUrl | None) -> DatabaseUrl:
    if given is None and db is not None and not db.is_sqlite:
        return db
    if given is None:
        if not sys.stdin.isatty():
            raise click.UsageError("name the Postgres database: CONTENT_AI_DB, the setting `db`, or --to")
        given = str(click.prompt("Postgres URL (not shown)", hide_input=True, err=True))
    try:
        return DatabaseUrl(given)
    except ValueError as error:
        raise BadSettings(f"{masked(given)!r} {error}") from error


def _print(document: Moved) -> None:
    for one in document.tables:
        if one.rows:
            print_result(f"{one.rows:>9}  {one.table}")
    what = counted(document.rows, "row")
    if document.was_there:
        print_result(f"{what}: the same rows are in {document.target} already. Nothing was written.")
    else:
        print_result(f"{what} copied to {document.target} and compared.")
    print_note(
        "From now on set CONTENT_AI_DB to that database and CONTENT_AI_DAGSTER_STORAGE=postgres (or `db` and "
        f"`dagster_storage` in content-ai.toml). {document.source} was not changed; keep it as a backup."
    )
