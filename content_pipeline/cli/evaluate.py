"""`content-ai evaluate`: how well a detector finds what a person found, on clips whose fights are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import counted, print_document, print_note, print_result, shortened, stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from content_pipeline.media.curves.model import Curves
    from content_pipeline.media.detection.evaluation import Agreement, Judgement, Verdict
    from content_pipeline.settings import Settings

MOST_GAIN_DB = 120.0
MEASURES = ("event_precision", "event_recall", "event_f1", "time_f1", "false_events_quiet", "montage_share")
TITLES = ("precision", "recall", "F1", "time F1", "false in\nquiet", "montage")
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
    from content_pipeline.media.detection.evaluation import Judgement, at_level, judge
    from content_pipeline.media.detection.labels import read_labels

    settings = resolve(config_file, state_dir, assignments, {"detection.preset": preset}).settings
    clips = read_labels(Path(labels))
    measured = _measured([Path(labels).parent / clip.file for clip in clips], settings)
    judgement = Judgement(
        tuple(
            judge(clip, at_level(curves, gain_db), settings.detection)
            for clip, curves in zip(clips, measured, strict=True)
        )
    )
    print_document(as_document(judgement)) if as_json else _print(judgement)
    return 0


def as_document(judgement: Judgement) -> dict[str, Any]:
    """A measure that does not apply is null: of a quiet clip only its false events count."""
    return {
        **_measures(judgement.agreement),
        "false_events_quiet": judgement.false_events_quiet,
        "montage_share": _rounded(judgement.montage_share),
        "clips": [_clip_document(verdict) for verdict in judgement.verdicts],
    }


def _clip_document(verdict: Verdict) -> dict[str, Any]:
    is_quiet = verdict.clip.is_quiet
    return {
        "file": verdict.clip.file,
        **_measures(verdict.agreement),
        "false_events_quiet": verdict.agreement.detected if is_quiet else None,
        "montage_share": _rounded(verdict.montage_share),
    }


def _measures(agreement: Agreement) -> dict[str, float | None]:
    applies = agreement.labelled > 0
    return {
        "event_precision": _rounded(agreement.precision if applies else None),
        "event_recall": _rounded(agreement.recall if applies else None),
        "event_f1": _rounded(agreement.f1 if applies else None),
        "time_f1": _rounded(agreement.time_f1 if applies else None),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _print(judgement: Judgement) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from content_pipeline.errors import printable

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("clip", no_wrap=True)
    for title in TITLES:
        table.add_column(title, justify="right", no_wrap=True)
    room = stdout().width - sum(max(len("0.00"), *map(len, title.splitlines())) + 2 for title in TITLES)
    document = as_document(judgement)
    for row in document["clips"]:
        table.add_row(Text(shortened(printable(row["file"]), max(room, SHORTEST_NAME))), *_cells(row))
    table.add_section()
    table.add_row("all", *_cells(document))
    print_result(table)
    if judgement.empty_montages:
        empty = f"{counted(judgement.empty_montages, 'clip')} with fights"
        print_result(f"{empty} gave an empty montage, which counts as a share of 0")
    print_result("montage: the share of the best 20 seconds that is a fight")
    print_result("precision: the share of the events found that are fights; recall: the share of the fights found")


def _cells(row: dict[str, Any]) -> list[str]:
    values = [row[name] for name in MEASURES]
    return ["-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value) for value in values]


def _measured(paths: Sequence[Path], settings: Settings) -> list[Curves]:
    """The curves of all clips, a few at a time, each in a process that ends with this one."""
    from content_pipeline.media.curves.measure import primary_curves
    from content_pipeline.system.parallel_map import parallel_map

    print_note(f"Measuring the sound of {counted(len(paths), 'clip')}")
    return list(parallel_map(lambda path: primary_curves(path, settings), paths, settings.worker_count))
