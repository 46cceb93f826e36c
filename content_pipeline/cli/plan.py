"""`content-ai plan`: what would run and why, how long it would take, and whether there is room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from content_pipeline.cli.found import print_found
from content_pipeline.cli.options import process_options, settings_options
from content_pipeline.cli.printing import counted, lasting, print_document, print_note, print_result
from content_pipeline.cli.process import request_of
from content_pipeline.errors import printable
from content_pipeline.services import planning
from content_pipeline.services.planning import PlanDocument
from content_pipeline.services.processing import ProcessRequest
from content_pipeline.services.queueing import lost_manifest
from content_pipeline.settings import Settings

MOST_ROWS = 50


@click.command()
@process_options
@settings_options
def plan(as_json: bool, **given: Any) -> int:
    """Show what `process` with the same options would do, and why. Reads no recording and changes nothing."""
    settings, request = request_of(given)
    return show_plan(settings, request, as_json)


def show_plan(settings: Settings, request: ProcessRequest, as_json: bool) -> int:
    if (lost := lost_manifest(settings)) is not None:
        print_note(lost)
    document = planning.plan(settings, request)
    print_found(document.found)
    print_document(document) if as_json else _print(document)
    return 0


def _print(document: PlanDocument) -> None:
    _print_table(document)
    totals = document.totals
    if totals.left_out:
        print_result(f"{counted(totals.left_out, 'more video')} to do beyond the limit.")
    if document.renamed:
        print_result(f"Renamed or moved: {counted(len(document.renamed), 'recording')}; the results move along.")
    if document.offline:
        print_result(
            f"Offline: {counted(len(document.offline), 'recording')}; is a disk not mounted? Nothing is forgotten."
        )
    print_result(_totals(document))


def _print_table(document: PlanDocument) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("video", "action", "why"):
        table.add_column(title, overflow="fold")
    shown = [video for video in document.videos if video.action != "keep"]
    for video in shown[:MOST_ROWS]:
        table.add_row(Text(printable(Path(video.path).name)), Text(video.action), Text(video.why))
    if shown:
        print_result(table)
    if len(shown) > MOST_ROWS:
        print_result(f"… and {len(shown) - MOST_ROWS} more; --json lists all.")


def _totals(document: PlanDocument) -> str:
    totals = document.totals
    videos = counted(totals.videos, "video")
    idle = ", ".join(f"{number} {status}" for status, number in document.idle.items() if number)
    if not totals.to_run:
        return f"{videos}: nothing to do ({idle})." if idle else f"{videos}: nothing to do."
    time_needed = "unknown yet" if totals.expected_s is None else f"about {lasting(totals.expected_s)}"
    others = f", {idle}" if idle else ", 0 up to date"
    return (
        f"{videos}: {totals.to_run} to run{others}; time {time_needed}; "
        f"{totals.bytes_needed / 1e9:.2f} GB needed, {totals.bytes_free / 1e9:.2f} GB free."
    )
