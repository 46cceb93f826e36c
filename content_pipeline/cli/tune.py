"""`content-ai tune`: what each threshold would pick of a library, and the one that gives what is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import counted, describe_target, lasting, print_document, print_note, print_result
from content_pipeline.errors import printable
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.library.keys import canonical_path
from content_pipeline.manifest.calibrations import Applied, Calibrations
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.open import open_named_manifest
from content_pipeline.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

    from content_pipeline.stages.context import StageResult

BY_HAND = "asked for by a person"


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
    """Show what each threshold would pick from a library, using cached curves. Decodes and renders nothing."""
    if wants_apply and wants_reset:
        raise click.UsageError("--apply and --reset cannot be used together")
    settings = resolve(config_file, state_dir, assignments, _as_settings(given)).settings
    if wants_reset:
        return _reset(settings, canonical_path(Path(folder)), as_json)
    return _tune(settings, canonical_path(Path(folder)), wants_apply, as_json)


def _as_settings(given: dict[str, Any]) -> dict[str, Any]:
    montage_s, per_hour, values = given["montage_s"], given["per_hour"], given["values"]
    if montage_s is not None and per_hour is not None:
        raise click.UsageError("only one target at a time: --montage-s or --per-hour")
    one_value = values is not None and "," not in values
    if montage_s is not None or per_hour is not None or one_value:  # in place of what the settings wish for
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
    from content_pipeline.execution.calibrating import Calibrator
    from content_pipeline.media.selection.tuning import target_of

    if wants_apply and target_of(settings.calibration) is None and len(settings.calibration.values) != 1:
        raise click.UsageError("--apply needs a target (--montage-s or --per-hour), or one value (--values)")
    manifest = open_named_manifest(settings, Access.USE)
    calibrator = Calibrator(settings, manifest, settings.worker_count)
    before = Calibrations(manifest.engine).of_library(folder)
    if wants_apply:
        manifest.close_breakers()  # a person asks for it: try at once, and pause again if need be
    done = calibrator.calibrate(folder, BY_HAND) if wants_apply else None
    result = calibrator.look(folder) if done is None else done.result
    counts = Calibrations(manifest.engine).of_library(folder)
    document = _document(result, counts, done is not None and done.applied is not None)
    if as_json:
        print_document(document)
        return 0
    _print(document, before, settings)
    if done is not None:
        _print_applied(done.applied, counts)
    elif document["value"] is not None:
        _print_what_next(document)
    return 0


def _reset(settings: Settings, folder: Path, as_json: bool) -> int:
    manifest = open_named_manifest(settings, Access.USE)
    rescue_orphans(manifest)  # one whose process died waits, and is not asked to stop
    done = manifest.reset_calibration(str(folder))
    before = done.was_applied
    if as_json:
        was = {"was_applied": None if before is None else _applied(before)}
        stopped = {"cancelled": done.cancelled, "asked_to_stop": done.asked_to_stop}
        print_document({"library": str(folder), **was, **stopped})
        return 0
    if before is None:
        print_result(f"No calibration was applied to {printable(folder)}.")
    else:
        print_result(f"{before.name} {before.value:g} is no longer used; `content-ai process` uses the settings again.")
    if done.cancelled:
        print_result("The waiting calibration is cancelled.")
    if done.asked_to_stop:
        print_result("The running calibration is asked to stop and will not be applied.")
    return 0


def _document(result: StageResult, applied: Applied | None, applied_now: bool) -> dict[str, Any]:
    facts = result.artifact.facts
    return {
        **result.artifact.read_json("calibration.json"),
        "key": result.key,
        "reused": result.reused,
        "videos": facts["videos"],
        "without_curves": facts["without_curves"],
        "applied": None if applied is None else _applied(applied),
        "applied_now": applied_now,
    }


def _applied(applied: Applied) -> dict[str, Any]:
    at = None if applied.applied_at is None else applied.applied_at.isoformat()
    return {
        "setting": applied.setting,
        "value": applied.value,
        "preset": applied.preset,
        "key": applied.key,
        "at": at,
    }


# --- for people


def _print(document: dict[str, Any], applied: Applied | None, settings: Settings) -> None:
    now = document["now"]
    print_result(f"{document['library']}: {_how_much(document)}.")
    if document["without_curves"]:
        print_note(
            f"Left out: {counted(document['without_curves'], 'video')} without curves; run `content-ai process` first."
        )
    how = " (calibration)" if now["calibrated"] else ""
    print_result(f"Now: {now['setting']} {now['value']:g}{how}.")
    if applied is not None and not now["calibrated"]:
        print_note(
            f"The calibration {applied.setting} {applied.value:g} ({applied.preset}) is not used with these settings."
        )
    print_result(_table(document))
    if document["wish"] is not None and document["value"] is not None:
        _print_choice(document)
    for remark in document["remarks"]:
        print_result(f"Note: {remark}.")
    if not settings.calibration.use:
        print_note("Calibrations are turned off, by `calibration.use` or by a threshold given as a flag.")


def _how_much(document: dict[str, Any]) -> str:
    return f"{counted(document['videos'], 'video')}, {lasting(3600 * document['hours'])} of recording"


def _print_choice(document: dict[str, Any]) -> None:
    wish = document["wish"]
    row = next(row for row in document["table"] if row["is_chosen"])
    found = f"{document['setting']} {row['value']:g} gives {row[wish['kind']]:.1f}"
    print_result(f"Target: {describe_target(wish)}; {found}.")


def _print_applied(applied: Applied | None, counts: Applied | None) -> None:
    if applied is None:
        print_result("Nothing was applied.")
        return
    videos = "the next `content-ai process` uses it, with cached curves"
    print_result(f"Applied: {applied.name} {applied.value:g}; {videos}.")
    if counts is None or (counts.name, counts.value) != (applied.name, applied.value):
        told = "it was reset" if counts is None else f"{counts.name} {counts.value:g} was applied"
        print_note(f"Since then {told} by another command.")


def _print_what_next(document: dict[str, Any]) -> None:
    """Nothing is recommended that would not help."""
    chosen = f"{document['setting']} {document['value']:g}"
    if any(row["is_now"] and row["is_chosen"] for row in document["table"]):
        print_result(f"{chosen} is already in use for this library.")
    elif document["wish"] is None or document["is_in_reach"]:
        print_result(f"`--apply` uses {chosen} for this library.")


def _table(document: dict[str, Any]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))  # fits 80 columns
    for title in (document["setting"], "clips", "seconds", "mean s", "moments/h", "limited", "change", ""):
        table.add_column(title, justify="left" if not title else "right", no_wrap=True)
    chosen = "<- chosen" if document["wish"] is None else "<- target"
    for row in document["table"]:
        marks = [mark for mark, is_so in (("now", row["is_now"]), (chosen, row["is_chosen"])) if is_so]
        cells = (
            f"{row['value']:g}",
            str(row["clips"]),
            f"{row['seconds']:.0f}",
            f"{row['montage_s']:.1f}",
            f"{row['per_hour']:.1f}",
            str(row["limited"]),
            f"+{row['came']} / -{row['went']}",
            ", ".join(marks),
        )
        style = "bold" if row["is_chosen"] else ""
        table.add_row(*(Text(cell, style) for cell in cells))
    return table
