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

    def common(self, other: Span) -> Span:
        """What lies in both; empty, and inside of this one, where there is nothing."""
        start_s = min(max(self.start_s, other.start_s), self.end_s)
        return Span(start_s, max(start_s, min(self.end_s, other.end_s)))

    @property
    def middle_s(self) -> float:
        return (self.start_s + self.end_s) / 2


@dataclass(frozen=True, order=True)
class Scene:
    """A stretch of the recording, and the moment of it that a picture shows."""

    span: Span
    at_s: float

    @classmethod
    def of(cls, span: Span, at_s: float | None = None) -> Scene:
        """Where nobody knows the moment, the middle."""
        return cls(span, span.middle_s if at_s is None else at_s)
