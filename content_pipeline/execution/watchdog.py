"""When a child that lives does nothing any more: how long it may be silent, and how that is counted."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from content_pipeline.settings import QueueSettings

BYTES_PER_HOUR = 4 << 30  # of a recording whose length is not known yet
HOURS_WITHOUT_VIDEO = 10.0  # what a run that is about no video in particular may be silent for
LONGEST_TURN_S = 5.0


def stall_limit_s(queue: QueueSettings, duration_s: float, size_bytes: int | None) -> float:
    """Generous: work that is silent for so long hangs. Whichever of length and size asks for more patience counts.

    `size_bytes` is None for a run that is about no video.
    """
    hours = HOURS_WITHOUT_VIDEO if size_bytes is None else max(duration_s / 3600, size_bytes / BYTES_PER_HOUR)
    return queue.stall_s + hours * queue.stall_per_hour_s


@dataclass
class Turns:
    """The time in which we could have heard a child: none in which this process, or the machine, stood still."""

    _last_s: float = field(default_factory=time.monotonic)

    def passed_s(self) -> float:
        """Since this was last asked, but no longer than a turn takes."""
        before_s, self._last_s = self._last_s, time.monotonic()
        return min(self._last_s - before_s, LONGEST_TURN_S)
