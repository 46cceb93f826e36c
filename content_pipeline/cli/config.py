"""`content-ai config show`: every setting, its value and where it came from."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_document, print_note, print_result
from content_pipeline.services import configuration
from content_pipeline.services.configuration import ConfigurationDocument, describe_settings, describing


@click.group()
def config() -> None:
    """Show the settings."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def show(as_json: bool, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> int:
    """Show each setting, its value, and where it came from."""
    document = configuration.show(resolve(config_file, state_dir, assignments))
    if document.unreadable is not None:
        print_note(f"The applied calibrations cannot be read: {document.unreadable}")
    print_document(document) if as_json else _print(document)
    return 0


def _print(document: ConfigurationDocument) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    descriptions = describe_settings()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("setting", "value", "from", "what it does"):
        table.add_column(title, overflow="fold")
    for key, setting in document.settings.items():
        origin = Text(setting.origin, "" if setting.origin == "default" else "bold")
        table.add_row(Text(key), Text(shown(setting.value)), origin, Text(descriptions[describing(key)]))
    print_result(table)
    for one in document.calibrations:
        how = "" if one.counts else " (not used with these settings)"
        print_result(f"Calibrated: {one.setting} {one.value:g} for {one.library}{how}")


def shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
