"""What a child has said of its work so far, folded into one frozen record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from content_pipeline.execution.messages import (
    Alive,
    Failed,
    Failure,
    Identified,
    Message,
    Outdated,
    Progress,
    Results,
    RunStarted,
    RunStatus,
    StageFinished,
    StageRecalled,
    WorkEnded,
)


@dataclass(frozen=True)
class ChildReport:
    """`stage` is the one at which the child is, as far as it has said."""

    stage: str
    key: str | None = None
    run_id: str | None = None
    input_bytes: int = 0
    fraction: float | None = None
    finished: Mapping[str, StageFinished] = field(default_factory=dict)
    recalled: Mapping[str, StageRecalled] = field(default_factory=dict)
    failure: Failure | None = None
    outdated: str | None = None
    ended: WorkEnded | None = None
    results: Mapping[str, Any] | None = None  # see the handler of the job's kind

    def after(self, message: Message) -> ChildReport:
        match message:
            case Identified(key, size_bytes):
                return replace(self, key=key, input_bytes=size_bytes)
            case RunStarted(run_id):
                return replace(self, run_id=run_id)
            case Progress(stage, fraction):
                return replace(self, stage=stage, fraction=fraction)
            case StageFinished(stage=stage):
                return replace(self, finished={**self.finished, stage: message})
            case StageRecalled(stage=stage):
                return replace(self, recalled={**self.recalled, stage: message})
            case Results(values):
                return replace(self, results=values)
            case Outdated(why):
                return replace(self, outdated=why)
            case Failed(failure):
                return replace(self, failure=failure)
            case WorkEnded():
                return replace(self, ended=message)
            case Alive():
                return self

    # --- what follows from it

    @property
    def status(self) -> RunStatus | None:
        """How the run ended; None while nothing is said of its end."""
        return None if self.ended is None else self.ended.status

    @property
    def succeeded(self) -> bool:
        return self.status is RunStatus.SUCCEEDED and self.failure is None

    @property
    def _known(self) -> dict[str, StageFinished | StageRecalled]:
        return {**self.recalled, **self.finished}

    @property
    def stage_keys(self) -> dict[str, str]:
        return {stage: one.key for stage, one in self._known.items()}

    @property
    def stages(self) -> dict[str, str]:
        """Each stage that is done, and whether it was `computed` or `reused`."""
        done = {stage: "reused" if one.reused else "computed" for stage, one in self.finished.items()}
        return {**dict.fromkeys(self.recalled, "reused"), **done}

    @property
    def facts(self) -> dict[str, Any]:
        return {name: value for one in self._known.values() for name, value in one.facts.items()}

    @property
    def duration_s(self) -> float:
        """Of the recording; 0 until it is known."""
        return float(self.facts.get("duration_s", 0.0))

    @property
    def cost(self) -> dict[str, dict[str, Any]]:
        return {stage: {**one.cost, "bytes": self.input_bytes} for stage, one in self.finished.items()}

    @property
    def config_hash(self) -> str | None:
        """Of the settings that it was made with, if a stage said so."""
        said = [one.config_hash for one in self.finished.values() if one.config_hash is not None]
        return said[-1] if said else None

    @property
    def latest(self) -> StageFinished | None:
        """The stage that finished last: its outputs are the job's."""
        return next(reversed(list(self.finished.values())), None)
