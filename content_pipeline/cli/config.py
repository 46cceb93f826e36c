"""`content-ai config show`: every setting, its value and where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_document, print_note, print_result
from content_pipeline.errors import PipelineError, printable
from content_pipeline.settings import Settings, flatten

if TYPE_CHECKING:
    from content_pipeline.manifest.calibrations import AppliedCalibration


@click.group()
def config() -> None:
    """Show the settings."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def show(as_json: bool, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> None:
    """Show each setting, its value, and where it came from."""
    resolved = resolve(config_file, state_dir, assignments)
    values = flatten(resolved.settings.model_dump(mode="json"))
    applied = _applied(resolved.settings)
    if as_json:
        shown_settings = {key: {"value": value, "origin": resolved.origins[key]} for key, value in values.items()}
        print_document({**shown_settings, "calibrations": [_as_document(one, resolved.settings) for one in applied]})
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    descriptions = describe_settings()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("setting", "value", "from", "what it does"):
        table.add_column(title, overflow="fold")
    for key, value in values.items():
        origin = resolved.origins[key]
        table.add_row(
            Text(key), Text(shown(value)), Text(origin, "" if origin == "default" else "bold"), Text(descriptions[key])
        )
    print_result(table)
    for one in applied:
        how = "" if one.counts_for(resolved.settings) else " (not used with these settings)"
        print_result(f"Calibrated: {one.name} {one.value:g} for {printable(one.library)}{how}")


def _applied(settings: Settings) -> list[AppliedCalibration]:
    """What libraries have in place of the settings. No manifest is made for it, and one that fails hides no setting."""
    from content_pipeline.manifest.database import Access
    from content_pipeline.manifest.open import open_manifest

    try:
        return open_manifest(settings, Access.READ).calibrations.all()
    except PipelineError as error:
        print_note(f"The applied calibrations cannot be read: {error}")
        return []


def _as_document(applied: AppliedCalibration, settings: Settings) -> dict[str, Any]:
    return {
        "library": printable(applied.library),
        "setting": applied.name,
        "value": applied.value,
        "preset": applied.preset,
        "counts": applied.counts_for(settings),
    }


def describe_settings() -> dict[str, str]:
    """`section.key` -> its description, from the one model that holds the defaults."""
    found: dict[str, str] = {}
    for name, field in Settings.model_fields.items():
        section: Any = field.annotation
        if hasattr(section, "model_fields"):
            found |= {f"{name}.{key}": inner.description or "" for key, inner in section.model_fields.items()}
        else:
            found[name] = field.description or ""
    return found


def shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
