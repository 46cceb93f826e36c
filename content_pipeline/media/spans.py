"""Time in a recording: seconds on its own clock, 0 where a player shows 0:00."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Span:
    """A half-open stretch of time, `[start, end)`."""

    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s

    def overlap_s(self, other: Span) -> float:
        return max(0.0, min(self.end_s, other.end_s) - max(self.start_s, other.start_s))
