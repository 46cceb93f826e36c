"""When a child that lives does nothing any more: how long it may be silent, and how that is counted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from content_pipeline.errors import Stalled, printable
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.messages import Failure
from content_pipeline.settings import QueueSettings

BYTES_PER_HOUR = 4 << 30  # of a recording whose length is not known yet
HOURS_WITHOUT_VIDEO = 10.0  # what a run that is about no video in particular may be silent for
LONGEST_POLL_S = 5.0


def stall_limit_s(queue: QueueSettings, duration_s: float, size_bytes: int | None) -> float:
    """Generous: work that is silent for so long hangs. Whichever of length and size asks for more patience counts.

    `size_bytes` is None for a run that is about no video.
    """
    hours = HOURS_WITHOUT_VIDEO if size_bytes is None else max(duration_s / 3600, size_bytes / BYTES_PER_HOUR)
    return queue.stall_s + hours * queue.stall_per_hour_s


@dataclass
class ListeningTime:
    """The time in which a child could have been heard: none in which this process, or the machine, stood still."""

    _last_s: float = field(default_factory=time.monotonic)

    def passed_s(self) -> float:
        """Since this was last asked, but no longer than a poll takes."""
        before_s, self._last_s = self._last_s, time.monotonic()
        return min(self._last_s - before_s, LONGEST_POLL_S)


class Watchdog:
    """A child that lives but does nothing would keep its lease for ever."""

    def __init__(self, queue: QueueSettings) -> None:
        self._queue = queue
        self._listening = ListeningTime()

    def stalled(self, active: Iterable[ActiveJob]) -> Iterator[tuple[ActiveJob, float]]:
        """Those that have been silent for longer than they may, and for how long that is."""
        passed_s = self._listening.passed_s()
        for one in active:
            one.silent_s += passed_s
            limit_s = stall_limit_s(self._queue, one.report.duration_s, one.size_bytes)
            if one.silent_s > limit_s and not one.is_ending:
                yield one, limit_s


def stall_failure(active: ActiveJob, limit_s: float, where: str) -> Failure:
    stage = active.report.stage
    error = Stalled(
        f"{printable(active.assignment.subject)}: no progress in {stage} for {limit_s:.0f} s (queue.stall_s); "
        f"it hung in {where}"
    )
    return Failure.of(error, stage)
