"""`content-ai roots`: shared storage that hosts mount at different places."""

from __future__ import annotations

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_document, print_result
from content_pipeline.errors import counted
from content_pipeline.services import storage


@click.group()
def roots() -> None:
    """Name shared storage that hosts mount at different places."""


@roots.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def add(name: str, as_json: bool, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> int:
    """Store the paths below a root by its name from now on, those that are known included.

    Once for all hosts, on one that may write there: it puts a hidden file with an id into the folder. Nothing is
    processed again. No job may be running meanwhile.
    """
    document = storage.add_root(resolve(config_file, state_dir, assignments).settings, name)
    if as_json:
        print_document(document)
    else:
        print_result(f"{document.name} is {document.folder}; {counted(document.renamed, 'row')} stored by its name.")
    return 0


@roots.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def list_roots(as_json: bool, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> int:
    """Show every root, and whether this host sees it."""
    document = storage.list_roots(resolve(config_file, state_dir, assignments).settings)
    if as_json:
        print_document(document)
        return 0
    for root in document.root:
        print_result(f"{root.name:12} {root.state:9} {root.folder or '-'}{f'  {root.problem}' if root.problem else ''}")
    return 0
