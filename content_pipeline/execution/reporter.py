"""Where a run tells how it gets on: to the process that forked this one, or to nobody."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from content_pipeline.errors import PipelineError, code_of
from content_pipeline.stage import StageName
from content_pipeline.stages.context import StageResult

ALIVE_EVERY_S = 1.0


class Reporter(Protocol):
    reported_failure: bool

    def progressed(self, stage: StageName, fraction: float) -> None: ...

    def alive(self) -> None:
        """The work gets on, though there is nothing to show: a parent that hears nothing for long ends the child."""

    def finished(self, result: StageResult, cost: dict[str, Any], config_hash: str | None = None) -> None: ...

    def failed(self, stage: StageName, error: BaseException) -> None: ...


class NullReporter:
    """Dagster's own event log says enough."""

    reported_failure = False

    def progressed(self, stage: StageName, fraction: float) -> None:
        return None

    def alive(self) -> None:
        return None

    def finished(self, result: StageResult, cost: dict[str, Any], config_hash: str | None = None) -> None:
        return None

    def failed(self, stage: StageName, error: BaseException) -> None:
        return None


class PipeReporter:
    """Tells the parent process, as JSON values."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._last: tuple[StageName, float] | None = None
        self._said_s = time.monotonic()
        self.reported_failure = False
        self.output_stats: dict[str, list[int]] = {}

    def progressed(self, stage: StageName, fraction: float) -> None:
        """A percent at a time. Less than that is a sign of life, if it is more than before."""
        before, self._last = self._last, (stage, fraction)
        if before is None or before[0] != stage or int(before[1] * 100) != int(fraction * 100):
            self._say({"is": "progress", "stage": stage, "fraction": fraction})
        elif fraction > before[1]:
            self.alive()

    def alive(self) -> None:
        if time.monotonic() - self._said_s >= ALIVE_EVERY_S:
            self._say({"is": "alive"})

    def _say(self, message: dict[str, Any]) -> None:
        self._said_s = time.monotonic()
        self._send(message)

    def finished(self, result: StageResult, cost: dict[str, Any], config_hash: str | None = None) -> None:
        """`config_hash`: of all settings it was made with, when it is the last stage."""
        self.output_stats = _stats(result)
        self._send(
            {
                "is": "finished",
                "stage": result.stage,
                "key": result.key,
                "reused": result.reused,
                "facts": dict(result.artifact.facts),
                "outputs": {str(path): digest for path, digest in result.outputs.items()},
                "written": [str(path) for path in result.written],
                "notes": list(result.notes),
                "cost": {**cost, "reused": result.reused},
                "config_hash": config_hash,
            }
        )

    def failed(self, stage: StageName, error: BaseException) -> None:
        self.reported_failure = True
        kind = type(error) if isinstance(error, PipelineError) else PipelineError
        message = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
        self._send(
            {
                "is": "failed",
                "stage": stage,
                "code": code_of(error),
                "policy": kind.policy.value,
                "message": message,
                "hint": kind.hint,
            }
        )


def _stats(result: StageResult) -> dict[str, list[int]]:
    """Size and time of each output, by which a plan tells later whether it is still as it was left."""
    left = {one.path: one for one in result.publications if one.size_bytes is not None and one.mtime_ns is not None}
    return {str(path): [left[path].size_bytes, left[path].mtime_ns] for path in result.outputs}  # type: ignore[list-item]
