"""The only module that writes to the terminal: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@cache
def stdout() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


@cache
def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_document(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def print_result(text: str | RenderableType = "") -> None:
    stdout().print(text, markup=False)


def print_note(text: str) -> None:
    stderr().print(text, markup=False, style="dim")


def print_error(message: str, hint: str | None = None) -> None:
    """One clean line, and what to do."""
    print(f"content-ai: {message}", file=sys.stderr)
    if hint:
        print(f"            {hint}", file=sys.stderr)
