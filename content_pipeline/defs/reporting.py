"""Who hears how a run goes: Dagster's log by default, the CLI's progress when it started the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from content_pipeline.errors import PipelineError, code_of
from content_pipeline.settings import Stage
from content_pipeline.stages.workbench import StageResult


class Listener(Protocol):
    def progressed(self, stage: Stage, fraction: float) -> None: ...

    def finished(self, result: StageResult) -> None: ...

    def failed(self, stage: Stage, error: BaseException) -> None: ...


class Silent:
    """Dagster's own event log says enough."""

    def progressed(self, stage: Stage, fraction: float) -> None:
        return None

    def finished(self, result: StageResult) -> None:
        return None

    def failed(self, stage: Stage, error: BaseException) -> None:
        return None


class Sender:
    """Tells another process, as JSON values."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._last: tuple[Stage, int] | None = None

    def progressed(self, stage: Stage, fraction: float) -> None:
        step = (stage, int(fraction * 100))
        if step != self._last:
            self._last = step
            self._send({"is": "progress", "stage": stage, "fraction": fraction})

    def finished(self, result: StageResult) -> None:
        self._send(
            {
                "is": "finished",
                "stage": result.stage,
                "reused": result.reused,
                "seconds": result.seconds,
                "facts": dict(result.artifact.facts),
                "outputs": [str(path) for path in result.outputs],
            }
        )

    def failed(self, stage: Stage, error: BaseException) -> None:
        hint = error.hint if isinstance(error, PipelineError) else PipelineError.hint
        message = str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
        self._send({"is": "failed", "stage": stage, "code": code_of(error), "message": message, "hint": hint})
