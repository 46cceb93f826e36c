"""What became of one recording, as it is told to a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from content_pipeline.errors import PipelineError, hint_for
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import JobSummary
from content_pipeline.stage import VIDEO_STAGES


@dataclass(frozen=True)
class Outcome:
    """`stages` maps each finished stage to `computed` or `reused`, `reasons` those that were to run to why.

    `why` says the same in one line. `options`: what its job was done with, if a command asked for it.
    """

    path: Path
    key: str | None = None
    status: str = "pending"
    error_code: str | None = None
    error: str | None = None
    hint: str | None = None
    stages: dict[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    written: tuple[str, ...] = ()  # those of the outputs that were put in place just now
    notes: tuple[str, ...] = ()  # files that were kept, or removed, and why
    copy_of: Path | None = None  # the same recording, after which the outputs are called
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    options: Mapping[str, Any] | None = None

    @property
    def montage(self) -> str | None:
        return next((path for path in self.outputs if path.endswith(".mp4")), None)

    @property
    def no_highlights(self) -> bool:
        return self.status == "succeeded" and self.facts.get("clips") == 0


class Watcher(Protocol):
    def expect(self, number: int, sizes: Mapping[Path, int] | None = None) -> None: ...

    def started(self, outcome: Outcome) -> None: ...

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


class NullWatcher:
    """Nobody watches."""

    def expect(self, number: int, sizes: Mapping[Path, int] | None = None) -> None:
        pass

    def started(self, outcome: Outcome) -> None:
        pass

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None:
        pass

    def ended(self, outcome: Outcome) -> None:
        pass


def refused(path: Path, error: PipelineError) -> Outcome:
    return Outcome(path, status="failed", error_code=error.code, error=str(error), hint=error.hint)


def of_job(path: Path, job: JobSummary, note: str = "") -> Outcome:
    """What the manifest already knows, when nothing had to be done."""
    succeeded = job.status is State.SUCCEEDED
    return Outcome(
        path=path,
        key=job.video_key,
        status=str(job.status),
        error_code=job.error_code,
        error=job.last_error,
        hint=hint_for(job.error_code),
        stages=dict.fromkeys(VIDEO_STAGES, "reused") if succeeded else {},
        outputs=tuple(job.output_files) if succeeded else (),
        facts=job.results.get("facts", {}),
        note=note,
        options=job.options,
    )
