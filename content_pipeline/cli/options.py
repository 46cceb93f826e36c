"""Options that several commands share, and how flags become settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from content_pipeline.errors import BadSettings
from content_pipeline.settings import Resolved, load
from content_pipeline.settings.database_url import masked

Command = TypeVar("Command", bound=Callable[..., Any])


def settings_options(command: Command) -> Command:
    """`--config`, `--state-dir` and `--set`: every setting can be given to every command."""
    for option in (
        click.option(
            "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any setting, e.g. render.crf=20."
        ),
        click.option("--state-dir", type=click.Path(file_okay=False), help="State folder [.content-ai]."),
        click.option(
            "--config", "config_file", type=click.Path(dir_okay=False), help="Settings file [content-ai.toml]."
        ),
    ):
        command = option(command)
    return command


def process_options(command: Command) -> Command:
    """What to process, where to, and how: the same for `process` and for `plan`, which says what it would do."""
    folder = click.Path(file_okay=False)
    for option in reversed(
        (
            click.option(
                "-i", "--input", "target", required=True, type=click.Path(), help="A recording, or a folder of them."
            ),
            click.option("-o", "--output", "output_dir", type=folder, help="Folder for the montages [output]."),
            click.option("--db", help="The manifest database, a path or a URL [queue.db in the state folder]."),
            click.option("-w", "--workers", type=int, help="Videos processed at the same time [one per core]."),
            click.option("-f", "--force", is_flag=True, help="Process everything again, even if it is up to date."),
            click.option("--resume", is_flag=True, help="Continue where the last call stopped; this is always done."),
            click.option("--no-process", is_flag=True, help="Only enqueue; `content-ai queue process` does the work."),
            click.option("-r", "--recursive", is_flag=True, default=None, help="Search sub-folders too."),
            click.option("--ext", help="Comma-separated file endings [mp4,mov,mkv,avi]."),
            click.option(
                "--limit",
                type=click.IntRange(min=1),
                help="At most this many recordings: the next ones that need work.",
            ),
            click.option("--rms-threshold", type=float, help="How strong an event must be; higher finds less [0.10]."),
            click.option("--max-duration", type=float, help="Longest montage in seconds [90]."),
            click.option("--max-segments", type=int, help="Maximum number of clips in a montage [12]."),
            click.option("--order", help="Order of the clips: chronological, score or hybrid [chronological]."),
            click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end."),
        )
    ):
        command = option(command)
    return command


def resolve(
    config_file: str | None, state_dir: str | None, assignments: tuple[str, ...], flags: dict[str, Any] | None = None
) -> Resolved:
    given = {**_parse(assignments), **{key: value for key, value in (flags or {}).items() if value is not None}}
    if state_dir is not None:
        given["state_dir"] = state_dir
    return load(flags=given, config_file=None if config_file is None else Path(config_file))


def _parse(assignments: tuple[str, ...]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise BadSettings(f"--set takes KEY=VALUE, not {masked(assignment)!r}")
        parsed[key.strip()] = value.strip()
    return parsed
