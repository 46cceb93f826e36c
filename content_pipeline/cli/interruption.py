"""Ctrl-C, SIGTERM and SIGHUP as a request to stop, which a service asks for when it suits it."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Any

# Asked again after this long, the command ends at once: what it could not give back is rescued later.
INSIST_S = 5.0


class StopOnSignal:
    """SIGINT too, which a shell's background commands are started without."""

    def __init__(self) -> None:
        self._asked_s: float | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopOnSignal:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def is_set(self) -> bool:
        return self._asked_s is not None

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked_s is None:
            self._asked_s = time.monotonic()
        elif time.monotonic() - self._asked_s > INSIST_S:
            raise KeyboardInterrupt
