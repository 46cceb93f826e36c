"""Breakers: when one kind of error comes again and again, stop trying for a while, visibly.

A breaker is closed (work flows), open (work waits until `until`), then half-open: one job may try. If it
succeeds the breaker closes; if not, it opens for twice as long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

FAILURES_TO_OPEN = 5
FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 1800.0


@dataclass(frozen=True)
class Breaker:
    """`scope` is what it pauses: everything, a library or a stage. `probe` holds the job that tries when half-open."""

    scope: str
    error_code: str
    failures: int = 0
    openings: int = 0
    until: datetime | None = None
    probe: str | None = None
    message: str | None = None

    def is_open(self, now: datetime) -> bool:
        return self.until is not None and now < self.until

    def is_half_open(self, now: datetime) -> bool:
        return self.until is not None and now >= self.until

    def failed(self, now: datetime, message: str, at_once: bool) -> Breaker:
        """One more failure; `at_once` for errors that no other job could escape."""
        failures = self.failures + 1
        if not at_once and self.until is None and failures < FAILURES_TO_OPEN:
            return replace(self, failures=failures, message=message)
        if self.is_open(now):
            return replace(self, failures=failures, message=message)
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self.openings, 16))
        return replace(
            self,
            failures=failures,
            openings=self.openings + 1,
            until=now + timedelta(seconds=pause_s),
            probe=None,
            message=message,
        )
