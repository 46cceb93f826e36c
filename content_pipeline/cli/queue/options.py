"""Options that the queue's commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_note
from content_pipeline.job_kinds import CALIBRATION, PROCESSING
from content_pipeline.services.queueing import JobSelection, missing_manifest
from content_pipeline.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])

LONGEST_S = 100 * 366 * 86_400
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def queue_options(command: Command) -> Command:
    """`--db` and `--json`, with those that every command takes."""
    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)
    command = click.option("--db", help="The manifest database, a path or a URL.")(command)
    return settings_options(command)


def job_options(command: Command) -> Command:
    """Which jobs are meant: by id, by type, by error code, by age, by library."""
    for option in (
        click.option("--library", help="Only jobs of this library (its folder)."),
        click.option("--since", help="Only jobs that changed in this time, e.g. 30m, 12h, 7d."),
        click.option("--error-code", help="Only jobs with this error code."),
        click.option("--type", "kind", type=click.Choice([PROCESSING, CALIBRATION]), help="Only this type."),
        click.argument("job_ids", nargs=-1),
    ):
        command = option(command)
    return command


def settings_of(given: dict[str, Any], **flags: Any) -> Settings:
    """Take the shared options out of a command's arguments."""
    config_file, state_dir, assignments = (given.pop(name) for name in ("config_file", "state_dir", "assignments"))
    return resolve(config_file, state_dir, assignments, {"db": given.pop("db"), **flags}).settings


def settings_with_note(given: dict[str, Any]) -> Settings:
    """The same; and if there is no manifest, a note on why."""
    settings = settings_of(given)
    if (note := missing_manifest(settings)) is not None:
        print_note(note)
    return settings


def selection_of(given: dict[str, Any]) -> JobSelection:
    library, since = given["library"], given["since"]
    return JobSelection(
        job_ids=given["job_ids"],
        kind=given["kind"],
        library=None if library is None else Path(library),
        error_code=given["error_code"],
        since=None if since is None else duration(since),
    )


def require_selection(everything: bool, selection: JobSelection, besides: str = "") -> None:
    """An order without a word on which jobs is rarely meant for all of them."""
    if not everything and not selection.names_something:
        ways = "their ids, --type, --error-code, --since, --library, or --all"
        raise click.UsageError(f"say which jobs: {ways}{besides}")


def duration(text: str) -> timedelta:
    """`90s`, `30m`, `12h`, `7d`, `2w`."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _UNITS_S or int(number) * _UNITS_S[unit] > LONGEST_S:
        raise click.BadParameter(f"{text!r} is not a time: write for example 30m, 12h or 7d")
    return timedelta(seconds=int(number) * _UNITS_S[unit])
