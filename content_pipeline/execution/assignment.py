"""What a child is given to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from content_pipeline.execution.job_kinds import handler_of
from content_pipeline.manifest.model import Job
from content_pipeline.settings import Settings
from content_pipeline.stage import VIDEO_STAGES, StageName


@dataclass(frozen=True)
class Assignment:
    """A job that was claimed, or a run that Dagster launched, or both.

    `run_id` is that of a launched run: Dagster looks after it when it must be done again. `whole`: all stages of the
    subject, not some that a person picked.
    """

    name: str
    subject: Path
    job: Job | None = None
    run_id: str | None = None
    partition_key: str | None = None
    cores: int = 1
    whole: bool = True

    @property
    def first_stage(self) -> StageName:
        """What fails before a stage began is booked on it."""
        return VIDEO_STAGES[0] if self.job is None else handler_of(self.job.kind).stages[0]

    @property
    def is_launched(self) -> bool:
        return self.run_id is not None


def log_path(settings: Settings, name: str) -> Path:
    """What a child prints, kept apart from Dagster's own records."""
    return settings.state_dir.absolute() / "logs" / f"{name}.log"
