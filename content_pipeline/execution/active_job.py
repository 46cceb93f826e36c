"""A job, or a run without one, that a child works on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property

from content_pipeline.execution.assignment import Assignment
from content_pipeline.execution.child_report import ChildReport
from content_pipeline.execution.messages import Failure, Message, RunStatus
from content_pipeline.execution.outcome import Outcome
from content_pipeline.manifest.model import Lease


@dataclass
class ActiveJob:
    """`report` is what the child said; the rest is what its parent knows."""

    assignment: Assignment
    report: ChildReport
    started_s: float = field(default_factory=time.monotonic)
    silent_s: float = 0.0  # since the child last said something
    unsaved_progress: bool = False
    lease_lost: bool = False
    stop_by_s: float | None = None  # asked to stop; made to, at this moment
    stall: Failure | None = None  # why it was ended
    committed: Outcome | None = None  # what came of it, once the manifest knows

    @classmethod
    def of(cls, assignment: Assignment) -> ActiveJob:
        return cls(assignment, ChildReport(assignment.first_stage, assignment.partition_key, assignment.run_id))

    @property
    def name(self) -> str:
        return self.assignment.name

    @cached_property
    def lease(self) -> Lease | None:
        return None if self.assignment.job is None else self.assignment.job.lease

    @property
    def is_stopped(self) -> bool:
        """On purpose: by a person's request in the manifest, or in Dagster."""
        return self.stop_by_s is not None or self.report.status is RunStatus.CANCELLED

    @property
    def is_ending(self) -> bool:
        return self.lease_lost or self.is_stopped or self.stall is not None

    @property
    def size_bytes(self) -> int | None:
        """Of the recording, as well as it is known; None when it is about none."""
        if self.assignment.job is None:
            return None
        known = self.assignment.job.input_size
        return self.report.input_bytes if self.report.input_bytes or known is None else known

    def receive(self, message: Message) -> None:
        self.silent_s = 0.0
        before, self.report = self.report, self.report.after(message)
        self.unsaved_progress |= (self.report.stage, self.report.fraction) != (before.stage, before.fraction)

    def outcome(self, status: str, failure: Failure | None = None, note: str = "") -> Outcome:
        """What is told of it now."""
        latest = self.report.latest
        return Outcome(
            path=self.assignment.subject,
            key=self.report.key,
            status=status,
            error_code=None if failure is None else failure.code,
            error=None if failure is None else failure.message,
            hint=None if failure is None else failure.hint,
            stages=self.report.stages,
            outputs=() if latest is None else tuple(latest.outputs),
            written=() if latest is None else latest.written,
            notes=() if latest is None else latest.notes,
            seconds=round(time.monotonic() - self.started_s, 3),
            facts=self.report.facts,
            note=note,
            options=None if self.assignment.job is None else self.assignment.job.options,
        )
