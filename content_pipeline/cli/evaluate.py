"""`content-ai evaluate`: how well a detector finds what a person found, on clips whose fights are known."""

from __future__ import annotations

from pathlib import Path

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import counted, print_document, print_note, print_result, shortened, stdout
from content_pipeline.errors import printable
from content_pipeline.services import evaluating
from content_pipeline.services.evaluating import EvaluationDocument, Measures
from content_pipeline.settings.value_types import expand_home

MOST_GAIN_DB = 120.0
MEASURES = ("event_precision", "event_recall", "event_f1", "time_f1", "false_events_quiet", "montage_share")
TITLES = ("precision", "recall", "F1", "time F1", "false in\nquiet", "montage")
LEGEND = (
    "F1: precision and recall in one number; time F1: the same by seconds",
    "false in quiet: events in clips without a fight; montage: the share of the best 20 seconds that is a fight",
    "precision: the share of the events found that are fights; recall: the share of the fights found",
)
SHORTEST_NAME = 12


def _within_reason(_context: click.Context, _option: click.Parameter, value: float) -> float:
    if not abs(value) <= MOST_GAIN_DB:  # nor is what is no number
        raise click.BadParameter(f"a number of decibels up to {MOST_GAIN_DB:g} is expected")
    return value


@click.command()
@click.option(
    "--labels", required=True, type=click.Path(), help="JSON file with the labels; the clips must be in its folder."
)
@click.option("--preset", help="Detector to measure [as in the settings].")
@click.option(
    "--gain-db",
    default=0.0,
    callback=_within_reason,
    help="Simulate clips that were recorded louder or quieter [0].",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def evaluate(
    labels: str,
    preset: str | None,
    gain_db: float,
    as_json: bool,
    config_file: str | None,
    state_dir: str | None,
    assignments: tuple[str, ...],
) -> int:
    """Measure a detector on labelled clips (clips whose fights are known).

    Finds events in each clip as `process` would, and compares them with the labels. Nothing is stored. Exit code 2: the
    labels file cannot be used; 1: a clip cannot be read.
    """
    settings = resolve(config_file, state_dir, assignments, {"detection.preset": preset}).settings
    labels_file = expand_home(Path(labels))
    print_note(f"Measuring the sound of {counted(evaluating.count_clips(labels_file), 'clip')}")
    document = evaluating.evaluate(settings, labels_file, gain_db)
    print_document(document) if as_json else _print(document)
    return 0


def _print(document: EvaluationDocument) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("clip", no_wrap=True)
    for title in TITLES:
        table.add_column(title, justify="right", no_wrap=True)
    room = stdout().width - sum(max(len("0.00"), *map(len, title.splitlines())) + 2 for title in TITLES)
    for row in document.clips:
        table.add_row(Text(shortened(printable(row.file), max(room, SHORTEST_NAME))), *_cells(row))
    table.add_section()
    table.add_row("all", *_cells(document))
    print_result(table)
    if document.empty_montages:
        empty = f"{counted(document.empty_montages, 'clip')} with fights"
        print_result(f"{empty} gave an empty montage, which counts as a share of 0")
    for line in LEGEND:
        print_result(line)


def _cells(row: Measures) -> list[str]:
    values = [getattr(row, name) for name in MEASURES]
    return ["-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]
