"""Where a run tells how it gets on: to the process that forked this one, or to nobody."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from content_pipeline.execution.messages import Alive, Failed, Failure, Message, Progress, Results, StageFinished
from content_pipeline.stage import StageName
from content_pipeline.stages.context import StageResult

ALIVE_EVERY_S = 1.0


class Reporter(Protocol):
    reported_failure: bool

    def progressed(self, stage: StageName, fraction: float) -> None: ...

    def alive(self) -> None:
        """The work gets on, though there is nothing to show: a parent that hears nothing for long ends the child."""

    def finished(self, result: StageResult, cost: dict[str, Any], config_hash: str | None = None) -> None: ...

    def results(self, values: dict[str, Any]) -> None:
        """What the handler of the job's kind needs to commit it."""

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

    def results(self, values: dict[str, Any]) -> None:
        return None

    def failed(self, stage: StageName, error: BaseException) -> None:
        return None


class PipeReporter:
    """Tells the parent process."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._last: Progress | None = None
        self._sent_s = time.monotonic()
        self.reported_failure = False
        self.output_stats: dict[str, list[int]] = {}

    def send(self, message: Message) -> None:
        self._sent_s = time.monotonic()
        self._send(message)

    def progressed(self, stage: StageName, fraction: float) -> None:
        """A percent at a time. Less than that is a sign of life, if it is more than before."""
        before, self._last = self._last, Progress(stage, fraction)
        if before is None or before.stage != stage or int(before.fraction * 100) != int(fraction * 100):
            self.send(self._last)
        elif fraction > before.fraction:
            self.alive()

    def alive(self) -> None:
        if time.monotonic() - self._sent_s >= ALIVE_EVERY_S:
            self.send(Alive())

    def finished(self, result: StageResult, cost: dict[str, Any], config_hash: str | None = None) -> None:
        """`config_hash`: of all settings it was made with, when it is the last stage."""
        self.output_stats = _stats(result)
        self.send(
            StageFinished(
                stage=result.stage,
                key=result.key,
                reused=result.reused,
                facts=dict(result.artifact.facts),
                outputs={str(path): digest for path, digest in result.outputs.items()},
                written=tuple(str(path) for path in result.written),
                notes=tuple(result.notes),
                cost={**cost, "reused": result.reused},
                config_hash=config_hash,
            )
        )

    def results(self, values: dict[str, Any]) -> None:
        self.send(Results(values))

    def failed(self, stage: StageName, error: BaseException) -> None:
        self.reported_failure = True
        self.send(Failed(Failure.of(error, stage)))


def _stats(result: StageResult) -> dict[str, list[int]]:
    """Size and time of each output, by which a plan tells later whether it is still as it was left."""
    left = {one.path: one for one in result.publications if one.size_bytes is not None and one.mtime_ns is not None}
    return {str(path): [left[path].size_bytes, left[path].mtime_ns] for path in result.outputs}  # type: ignore[list-item]
