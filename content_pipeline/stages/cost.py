"""What a stage costs: time, CPU (its ffmpeg children included) and memory."""

from __future__ import annotations

import resource
import time
from typing import Any


class Meter:
    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._cpu_s = _cpu_s()

    def spent(self) -> dict[str, Any]:
        return {
            "wall_s": round(time.monotonic() - self._started_s, 4),
            "cpu_s": round(_cpu_s() - self._cpu_s, 4),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }


def _cpu_s() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
