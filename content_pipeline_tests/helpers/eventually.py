"""Waiting in tests: poll a condition until it holds, or fail at a deadline. Never sleep to wait for something."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

POLL_S = 0.02


def eventually(condition: Callable[[], Value | None], what: str | Callable[[], str], within_s: float = 90.0) -> Value:
    """What the condition gives once that is true; the test fails with `what` if it never is."""
    deadline_s = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what if isinstance(what, str) else what()}"
        time.sleep(POLL_S)
    return value


def let_time_pass(seconds: float, unless: Callable[[], object]) -> None:
    """Time that belongs to what is tested: how long trouble lasts, when chance strikes. Ends early if it is over."""
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s and not unless():
        time.sleep(POLL_S)
