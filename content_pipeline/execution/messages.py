"""What a child says to its parent: one record per kind of message.

The records travel as they are (`system.child_process` pickles them: both ends are the same code), and are folded into
a `ChildReport`. A new kind of message is a record here and a case in `ChildReport.after`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from content_pipeline.errors import PipelineError, RetryPolicy, code_of


class RunStatus(StrEnum):
    """How a run ended, by Dagster's records."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNFINISHED = "unfinished"  # it waits or runs


@dataclass(frozen=True)
class Failure:
    """An error as the manifest keeps it: what happened, in which stage, and what a later attempt could change."""

    code: str
    message: str
    policy: RetryPolicy
    hint: str
    stage: str

    @classmethod
    def of(cls, error: BaseException, stage: str) -> Failure:
        if isinstance(error, PipelineError):
            return cls(error.code, str(error), error.policy, error.hint, stage)
        message = f"{type(error).__name__}: {error}"
        return cls(code_of(error), message, PipelineError.policy, PipelineError.hint, stage)


@dataclass(frozen=True)
class Identified:
    """Which video the recording is."""

    key: str
    size_bytes: int


@dataclass(frozen=True)
class RunStarted:
    run_id: str


@dataclass(frozen=True)
class Progress:
    stage: str
    fraction: float


@dataclass(frozen=True)
class Alive:
    """The work gets on, though there is nothing to show."""


@dataclass(frozen=True)
class StageFinished:
    """`outputs`: published files and their SHA-256. `config_hash`: of all settings, when it is the last stage."""

    stage: str
    key: str
    reused: bool
    facts: Mapping[str, Any]
    outputs: Mapping[str, str]
    written: tuple[str, ...]
    notes: tuple[str, ...]
    cost: Mapping[str, Any]
    config_hash: str | None = None


@dataclass(frozen=True)
class StageRecalled:
    """Of a run that goes on: a stage that another process finished, and what is known of its result."""

    stage: str
    key: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outdated:
    """The run no longer fits its job. Nobody's fault: the job gets another run."""

    why: str


@dataclass(frozen=True)
class Failed:
    failure: Failure


@dataclass(frozen=True)
class WorkEnded:
    """All is said: how it ended, the digests of what was read, and size and time of each output as it was left."""

    status: RunStatus
    quick: str | None = None
    full: str | None = None
    output_stats: Mapping[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """What the handler of the job's kind needs to commit it, as JSON values."""

    values: Mapping[str, Any]


Message = (
    Identified | RunStarted | Progress | Alive | StageFinished | StageRecalled | Results | Outdated | Failed | WorkEnded
)
