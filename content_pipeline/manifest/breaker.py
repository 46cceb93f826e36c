"""Breakers: when one kind of error comes again and again, stop trying for a while, visibly.

A breaker is closed (work flows), open (work waits until `until`), then half-open: one job may try. If it
succeeds the breaker closes; if not, it opens for twice as long.

Some errors affect everything: a full disk, an unplugged drive. They block all jobs at once. Others may be the fault of
a stage or of the videos, and five videos that fail alike do not tell which. So those block only the videos that met
them. All others go on, and decide it: one that gets through the stage ends the pause, for then the failed ones are bad
files, and use up their attempts; while none does, the failed ones wait and keep theirs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

FAILURES_TO_OPEN = 5
FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 1800.0

EVERYTHING = "everything"
LIBRARY = "library:"
STAGE = "stage:"
OFFLINE = "library_offline"
ELSEWHERE = "storage_mismatch"  # said of jobs that only other hosts can do; never written


@dataclass(frozen=True)
class Breaker:
    """`scope` is where the error is met: everywhere, in a library or in a stage. `probe` holds the job that tries
    when half-open; `failures` counts different videos, in a row, until it opens.
    """

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

    @property
    def library(self) -> str | None:
        return self.scope.removeprefix(LIBRARY) if self.scope.startswith(LIBRARY) else None

    @property
    def affects_everything(self) -> bool:
        """Whether every job in its scope would meet the error."""
        return self.scope == EVERYTHING or self.error_code in (OFFLINE, ELSEWHERE)

    def blocks(self, library: str, last_error_code: str | None) -> bool:
        """Whether a job waits for it, by its library and by what its last attempt ended with."""
        in_scope = self.library is None or self.library == library
        return in_scope and (self.affects_everything or last_error_code == self.error_code)

    def is_ended_by(self, job_id: str, library: str, computed: Collection[str], now: datetime) -> bool:
        """Whether a success ends it. `computed` are the stages that were really gone through, and not found done.

        If the error affects everything, a success proves nothing during the pause: the job may have started before it.
        """
        if self.library is not None and self.library != library:
            return False
        if self.affects_everything:
            return not self.is_open(now)
        if self.scope.startswith(STAGE):
            return self.probe == job_id or self.scope.removeprefix(STAGE) in computed
        return self.probe == job_id or bool(computed)

    def failed(self, now: datetime, message: str, again: bool) -> Breaker:
        """One more failure; `again` when this very video failed so the last time: that is no news."""
        if again and self.until is None and not self.affects_everything:
            return self
        failures = self.failures + 1
        is_enough = self.affects_everything or self.until is not None or failures >= FAILURES_TO_OPEN
        if not is_enough or self.is_open(now):
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
