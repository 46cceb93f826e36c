"""Why work waits: pauses (open breakers) and retries that are due later, in words."""

from __future__ import annotations

from datetime import datetime

from content_pipeline.manifest.breaker import Breaker
from content_pipeline.services.document import Document


class Pause(Document):
    """A breaker that holds work up: what it is about, and the error that opened it."""

    scope: str
    error_code: str
    error: str | None

    @classmethod
    def of(cls, breaker: Breaker) -> Pause:
        return cls(scope=breaker.scope, error_code=breaker.error_code, error=breaker.message)


def describe_scope(scope: str) -> str:
    """What a breaker pauses: `everything`, `library:/videos` or `stage:energy`."""
    kind, _, name = scope.partition(":")
    if kind == "stage":
        return f"retrying videos that failed at {name}"
    return f"{kind} {name}" if name else "all work"


def describe_waiting(breaker: Breaker, until: datetime, now: datetime) -> str:
    left_s = max(0, round((until - now).total_seconds()))
    when = f"tried again in {left_s} s" if left_s else "the next job tries again"
    return f"{describe_scope(breaker.scope)} is paused ({breaker.error_code}: {breaker.message}); {when}"
