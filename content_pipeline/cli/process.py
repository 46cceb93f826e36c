"""`content-ai process`: a folder of recordings in, montages out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from content_pipeline.cli.interruption import StopOnSignal
from content_pipeline.cli.live import LiveProgress
from content_pipeline.cli.options import process_options, resolve, settings_options
from content_pipeline.cli.report import print_processing
from content_pipeline.services import processing
from content_pipeline.services.processing import ProcessRequest
from content_pipeline.settings import Settings

if TYPE_CHECKING:
    from dagster import Definitions


@click.command()
@process_options
@click.option("--dry-run", is_flag=True, help="Only show what would be done and why, like `content-ai plan`.")
@settings_options
def process(dry_run: bool, as_json: bool, **given: Any) -> int:
    """Turn recordings into highlight montages. What is up to date is reused."""
    settings, request = request_of(given)
    if dry_run:
        from content_pipeline.cli.plan import show_plan

        return show_plan(settings, request, as_json)
    return run_process(settings, request, as_json)


def run_process(settings: Settings, request: ProcessRequest, as_json: bool = False) -> int:
    with LiveProgress() as live, StopOnSignal() as stop:
        document = processing.process(settings, request, compose, live, stop)
    return print_processing(document, as_json, request.only_enqueue)


def request_of(given: dict[str, Any]) -> tuple[Settings, ProcessRequest]:
    """From what `process_options` and `settings_options` gave."""
    flags = {
        "output_dir": given["output_dir"],
        "db": given["db"],
        "workers": given["workers"],
        "library.recursive": given["recursive"],
        "library.extensions": given["ext"],
        "detection.rms_threshold": given["rms_threshold"],
        "output.max_duration_s": given["max_duration"],
        "output.max_segments": given["max_segments"],
        "output.order": given["order"],
    }
    settings = resolve(given["config_file"], given["state_dir"], given["assignments"], flags).settings
    request = ProcessRequest(
        target=Path(given["target"]), force=given["force"], limit=given["limit"], only_enqueue=given["no_process"]
    )
    return settings, request


def compose(settings: Settings) -> Definitions:
    """Dagster is loaded when there is something to do."""
    from content_pipeline.definitions import build_definitions

    return build_definitions(settings)
