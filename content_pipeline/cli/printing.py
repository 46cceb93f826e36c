"""The only module that writes to the terminal: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


LONG_DOCUMENT = 200_000


@cache
def stdout() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


@cache
def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_document(value: Any) -> None:
    """Indented for people while it is short; long ones are for programs, and ten times faster without."""
    text = json.dumps(value, allow_nan=False)
    print(text if len(text) > LONG_DOCUMENT else json.dumps(value, indent=2, allow_nan=False))


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
