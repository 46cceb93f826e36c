"""Options that the queue's commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_note
from content_pipeline.errors import printable
from content_pipeline.library.keys import canonical_path
from content_pipeline.manifest.database import Access, file_at
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobKind
from content_pipeline.manifest.open import open_named_manifest
from content_pipeline.manifest.operator_ops import JobFilter
from content_pipeline.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])

LONGEST_S = 100 * 366 * 86_400
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def queue_options(command: Command) -> Command:
    """`--db` and `--json`, with those that every command takes."""
    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)
    command = click.option("--db", help="The manifest database, a path or a URL.")(command)
    return settings_options(command)


def job_filter_options(command: Command) -> Command:
    """Which jobs are meant: by id, by error code, by age, by library."""
    for option in (
        click.option("--library", help="Only jobs of this library (its folder)."),
        click.option("--since", help="Only jobs that changed in this time, e.g. 30m, 12h, 7d."),
        click.option("--error-code", help="Only jobs with this error code."),
        click.option("--type", "kind", type=click.Choice([str(one) for one in JobKind]), help="Only this type."),
        click.argument("job_ids", nargs=-1),
    ):
        command = option(command)
    return command


def settings_of(given: dict[str, Any], **flags: Any) -> Settings:
    """Take the shared options out of a command's arguments."""
    config_file, state_dir, assignments = (given.pop(name) for name in ("config_file", "state_dir", "assignments"))
    return resolve(config_file, state_dir, assignments, {"db": given.pop("db"), **flags}).settings


def manifest_of(given: dict[str, Any], access: Access = Access.USE) -> Manifest:
    settings = settings_of(given)
    manifest = open_named_manifest(settings, access)
    path = file_at(settings.manifest_url)
    if path is not None and not path.exists():
        print_note(f"There is no manifest at {printable(path)}: nothing was processed here yet.")
    return manifest


def job_filter_of(manifest: Manifest, given: dict[str, Any], status: State | None = None) -> JobFilter:
    ids = given.get("job_ids")
    return JobFilter(
        job_ids=[manifest.jobs.get(job_id).job_id for job_id in ids] if ids else None,
        kind=None if given.get("kind") is None else JobKind(given["kind"]),
        library=None if given.get("library") is None else str(canonical_path(Path(given["library"]))),
        status=status,
        error_code=given.get("error_code"),
        since=None if given.get("since") is None else datetime.now(UTC) - duration(given["since"]),
    )


def duration(text: str) -> timedelta:
    """`90s`, `30m`, `12h`, `7d`, `2w`."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _UNITS_S or int(number) * _UNITS_S[unit] > LONGEST_S:
        raise click.BadParameter(f"{text!r} is not a time: write for example 30m, 12h or 7d")
    return timedelta(seconds=int(number) * _UNITS_S[unit])
