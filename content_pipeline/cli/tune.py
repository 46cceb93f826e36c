"""`content-ai tune`: what each threshold would pick of a library, and the one that gives what is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import counted, describe_target, lasting, print_document, print_note, print_result
from content_pipeline.errors import printable
from content_pipeline.services import tuning
from content_pipeline.services.tuning import TuningDocument
from content_pipeline.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.option("-i", "--input", "folder", required=True, type=click.Path(file_okay=False), help="The library's folder.")
@click.option("--montage-s", type=float, help="Target: mean length of a montage in seconds.")
@click.option(
    "--per-hour", type=float, help="Target: moments found per hour of recording, before the limits of the montage."
)
@click.option("--setting", help="Setting to tune: sensitivity or rms_threshold [as in the settings].")
@click.option("--values", help="Values to try, separated by commas; a single one can be applied without a target.")
@click.option("--apply", "wants_apply", is_flag=True, help="Use the value for the videos of this library from now on.")
@click.option("--reset", "wants_reset", is_flag=True, help="Remove the calibration: use the settings again.")
@click.option("-w", "--workers", type=int, help="Processes used [one per core].")
@click.option("--db", help="The manifest database, a path or a URL.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def tune(
    folder: str,
    wants_apply: bool,
    wants_reset: bool,
    as_json: bool,
    config_file: str | None,
    state_dir: str | None,
    assignments: tuple[str, ...],
    **given: Any,
) -> int:
    """Show what each threshold would pick from a library, using cached curves. Decodes and renders nothing.

    Without --apply only the table is kept, as an artifact in the state folder, so that the next call is fast.
    """
    if wants_apply and wants_reset:
        raise click.UsageError("--apply and --reset cannot be used together")
    settings = resolve(config_file, state_dir, assignments, _as_settings(given)).settings
    if wants_reset:
        return _reset(settings, Path(folder), as_json)
    return _tune(settings, Path(folder), wants_apply, as_json)


def _as_settings(given: dict[str, Any]) -> dict[str, Any]:
    montage_s, per_hour, values = given["montage_s"], given["per_hour"], given["values"]
    if montage_s is not None and per_hour is not None:
        raise click.UsageError("only one target at a time: --montage-s or --per-hour")
    one_value = values is not None and "," not in values
    if montage_s is not None or per_hour is not None or one_value:  # in place of the target of the settings
        montage_s, per_hour = (given[name] if given[name] is not None else "none" for name in ("montage_s", "per_hour"))
    return {
        "db": given["db"],
        "workers": given["workers"],
        "calibration.montage_s": montage_s,
        "calibration.per_hour": per_hour,
        "calibration.setting": given["setting"],
        "calibration.values": values,
    }


def _tune(settings: Settings, folder: Path, wants_apply: bool, as_json: bool) -> int:
    if wants_apply and not tuning.can_apply(settings):
        raise click.UsageError("--apply needs a target (--montage-s or --per-hour), or one value (--values)")
    document = tuning.apply(settings, folder) if wants_apply else tuning.look(settings, folder)
    if as_json:
        print_document(document)
        return 0
    _print(document, settings)
    if wants_apply:
        _print_applied(document)
    elif document.value is not None:
        _print_what_next(document)
    return 0


def _reset(settings: Settings, folder: Path, as_json: bool) -> int:
    done = tuning.reset(settings, folder)
    if as_json:
        print_document(done)
        return 0
    before = done.was_applied
    if before is None:
        print_result(f"No calibration was applied to {printable(done.library)}.")
    else:
        value = f"detection.{before.setting} {before.value:g}"
        print_result(f"{value} is no longer used; `content-ai process` uses the settings again.")
    if done.cancelled:
        print_result("The waiting calibration is cancelled.")
    if done.asked_to_stop:
        print_result("The running calibration is asked to stop and will not be applied.")
    return 0


def _print(document: TuningDocument, settings: Settings) -> None:
    now = document.now
    print_result(f"{document.library}: {_how_much(document)}.")
    if document.without_curves:
        print_note(_left_out(document))
    how = " (calibration)" if now.calibrated else ""
    print_result(f"Now: {now.setting} {now.value:g}{how}.")
    applied = document.applied_before
    if applied is not None and not now.calibrated:
        print_note(
            f"The calibration {applied.setting} {applied.value:g} ({applied.preset}) is not used with these settings."
        )
    if (other := document.other_setting) is not None:
        print_note(
            f"A calibration of {other.setting} ({other.value:g}) is in use. The table tries {document.setting} "
            f"without it; `--apply` replaces it."
        )
    print_result(_table(document))
    if document.target is not None and document.value is not None:
        _print_choice(document)
    for remark in document.remarks:
        print_result(f"Note: {remark}.")
    if not settings.calibration.use:
        print_note("Calibrations are turned off, by `calibration.use` or by a threshold given as a flag.")


def _left_out(document: TuningDocument) -> str:
    """Those that could not be processed will have no curves, however often `process` is called."""
    waiting = document.without_curves - document.failed
    parts = [f"{counted(document.failed, 'video')} that failed"] if document.failed else []
    if waiting > 0:
        parts.append(f"{counted(waiting, 'video')} without curves (run `content-ai process` first)")
    return f"Left out: {', '.join(parts)}."


def _how_much(document: TuningDocument) -> str:
    return f"{counted(document.videos, 'video')}, {lasting(3600 * document.hours)} of recording"


def _print_choice(document: TuningDocument) -> None:
    target, row = document.target, document.chosen
    assert target is not None and row is not None
    given = row.montage_s if target.kind == "montage_s" else row.per_hour
    print_result(f"Target: {describe_target(target)}; {document.setting} {row.value:g} gives {given:.1f}.")


def _print_applied(document: TuningDocument) -> None:
    if not document.applied_now:
        print_result("Nothing was applied.")
        return
    videos = "the next `content-ai process` uses it, with cached curves"
    print_result(f"Applied: detection.{document.setting} {document.value:g}; {videos}.")
    current = document.applied
    if current is None or (current.setting, current.value) != (document.setting, document.value):
        since = "it was reset" if current is None else f"detection.{current.setting} {current.value:g} was applied"
        print_note(f"Since then {since} by another command.")


def _print_what_next(document: TuningDocument) -> None:
    """Nothing is recommended that would not help."""
    chosen = f"{document.setting} {document.value:g}"
    if document.chosen is not None and document.chosen.is_now:
        print_result(f"{chosen} is already in use for this library.")
    elif document.target is None or document.is_in_reach:
        print_result(f"`--apply` uses {chosen} for this library.")


def _table(document: TuningDocument) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # Fits 80 columns, with the mark of the row that counts.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for title in (
        document.setting.replace("_", "_\n"),
        "clips",
        "seconds",
        "mean s",
        "moments/h",
        "limited",
        "change",
        "",
    ):
        table.add_column(title, justify="left" if not title else "right", no_wrap=True)
    chosen = "<- chosen" if document.target is None else "<- target"
    for row in document.table:
        marks = [mark for mark, is_so in (("now", row.is_now), (chosen, row.is_chosen)) if is_so]
        cells = (
            f"{row.value:g}",
            str(row.clips),
            f"{row.seconds:.0f}",
            f"{row.montage_s:.1f}",
            f"{row.per_hour:.1f}",
            str(row.limited),
            f"+{row.came} / -{row.went}",
            ", ".join(marks),
        )
        style = "bold" if row.is_chosen else ""
        table.add_row(*(Text(cell, style) for cell in cells))
    return table
