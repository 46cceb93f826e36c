"""The only module that writes to the terminal: results to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from content_pipeline.errors import counted as counted

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console, RenderableType

    from content_pipeline.media.selection.tuning import Target

LONG_DOCUMENT = 200_000
TARGETS = {"montage_s": "s of montage per video", "per_hour": "moments per hour"}


@cache
def stdout() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


@cache
def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_document(document: BaseModel) -> None:
    """Indented for people while it is short; long ones are for programs, and ten times faster without."""
    text = document.model_dump_json()
    print(text if len(text) > LONG_DOCUMENT else document.model_dump_json(indent=2))


def print_answer(document: BaseModel, as_json: bool, text: str) -> int:
    """The document, or what it says to people; returns the exit code of success."""
    print_document(document) if as_json else print_result(text)
    return 0


def print_text(text: str) -> None:
    sys.stdout.write(text)


def print_result(text: str | RenderableType = "") -> None:
    stdout().print(text, markup=False)


def print_note(text: str) -> None:
    stderr().print(text, markup=False, style="dim")


def print_error(message: str, hint: str | None = None) -> None:
    """One clean line, and what to do."""
    print(f"content-ai: {message}", file=sys.stderr)
    if hint:
        print(f"            {hint}", file=sys.stderr)


def confirm(question: str) -> None:
    """Ask a person; no ends the command. Without a terminal nobody can answer: `--yes` has to be given."""
    import click

    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: use --yes.")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing was changed")


# --- how things are put


def lasting(seconds: float) -> str:
    """How long something is, in the largest unit that leaves a number worth reading."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def describe_target(target: Target) -> str:
    return f"{target.amount:g} {TARGETS[target.kind]}"


def shortened(text: str, most: int) -> str:
    """Without its middle when it is too long: names often differ at their ends."""
    if len(text) <= most:
        return text
    ending = (most - 1) // 2
    return f"{text[: most - 1 - ending]}…{text[len(text) - ending :]}"
