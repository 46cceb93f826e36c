"""Options that several commands share, and how flags become settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from content_pipeline.database_url import masked
from content_pipeline.errors import BadSettings
from content_pipeline.settings import Resolved, load

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
