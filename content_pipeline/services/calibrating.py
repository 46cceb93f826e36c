"""Calibrating a library for somebody who waits: asked for and executed here, in the same way as by the daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import (
    BeingCalibrated,
    CalibrationStopped,
    Paused,
    PipelineError,
    error_with_code,
    printable,
)
from content_pipeline.execution.job_kinds import CALIBRATION
from content_pipeline.execution.job_kinds.calibration import STAGE, Calibrated, applied_by, library_at
from content_pipeline.execution.outcome import NullWatcher, Outcome
from content_pipeline.execution.rescue import current_job, rescue_orphans
from content_pipeline.execution.single_job import execute_claimed
from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.failpoints import failpoint
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job
from content_pipeline.settings import Settings
from content_pipeline.stages.calibration import calibration
from content_pipeline.stages.context import StageContext, StageResult

Progress = Callable[[str, float], None]


def no_progress(_stage: str, _fraction: float) -> None:
    return None


@dataclass(frozen=True)
class Calibrator:
    """Whoever calibrates: with which settings, on how many cores, and whom to tell how far it is."""

    settings: Settings
    manifest: Manifest
    cores: int = 1
    progress: Progress = no_progress

    def look(self, folder: Path) -> StageResult:
        """What each value would pick. Applies nothing, and asks for no job."""
        context = StageContext(
            settings=self.settings,
            artifacts=self._artifacts,
            videos=self.manifest.videos,
            publications=self.manifest.publications,
            progress=self.progress,
            cores=self.cores,
        )
        return calibration(context, library_at(folder, self.manifest))

    def calibrate(self, folder: Path, reason: str) -> Calibrated:
        """Ask for the library's job, and execute it."""
        request = CALIBRATION.request(folder, self.settings, self.manifest)
        rescue_orphans(self.manifest)
        found, claimed = self.manifest.jobs.ask_and_claim(request, reason, this_worker())
        failpoint("claimed")
        if claimed is None:
            raise _why_not(found)
        return self._execute(claimed)

    def take(self, job_id: str) -> Calibrated | None:
        """Execute a job that was asked for before; None when it cannot be claimed, or not yet."""
        current_job(self.manifest, job_id)
        claimed = self._claim([job_id])
        return None if claimed is None else self._execute(claimed)

    def take_all(self) -> Iterator[tuple[Job, Calibrated | PipelineError]]:
        """Execute every job that is due, one after the other; one that fails does not keep the others waiting."""
        while (claimed := self._claim(None)) is not None:
            try:
                outcome: Calibrated | PipelineError = self._execute(claimed)
            except PipelineError as error:  # the job says so too
                outcome = error
            yield claimed, outcome

    def _claim(self, job_ids: list[str] | None) -> Job | None:
        claimed = self.manifest.jobs.claim(ClaimRequest(this_worker(), kind=CALIBRATION.kind, job_ids=job_ids))
        failpoint("claimed")
        return claimed[0] if claimed else None

    def _execute(self, job: Job) -> Calibrated:
        outcome = execute_claimed(job, self.settings, self.manifest, _ProgressOnly(self.progress), self.cores)
        if outcome.status == "cancelled":
            raise CalibrationStopped(f"the calibration (job {job.job_id}) was cancelled")
        if outcome.status != State.SUCCEEDED:
            raise error_with_code(outcome.error_code, str(outcome.error), outcome.hint)
        return self._result(self.manifest.jobs.get(job.job_id), outcome)

    def _result(self, job: Job, outcome: Outcome) -> Calibrated:
        key = job.stage_keys[STAGE]
        artifact = self._artifacts.find(STAGE, key)
        assert artifact is not None, "it was sealed before the job succeeded"
        # How many videos could not be asked differs from time to time, and is not in the artifact.
        found = StageResult(
            STAGE, key, replace(artifact, facts=outcome.facts), outcome.stages[STAGE] == "reused", outcome.seconds
        )
        return Calibrated(found, applied_by(job.library, CALIBRATION.settings_of(job, self.settings), found))

    @property
    def _artifacts(self) -> ArtifactStore:
        return ArtifactStore(self.settings.state_dir.absolute() / "artifacts", self.settings.queue.lease_s)


@dataclass(frozen=True)
class _ProgressOnly(NullWatcher):
    """A watcher of one job, of whose start and end its caller knows."""

    progress: Progress

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None:
        self.progress(stage, fraction)


def _why_not(job: Job) -> PipelineError:
    if job.status is State.RUNNING:
        return BeingCalibrated(f"{printable(job.library)} is already being calibrated by worker {job.worker_id}")
    return Paused(f"the calibration of {printable(job.library)} is waiting: work is paused")
