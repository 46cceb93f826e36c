"""Calibrating a library, as a job: claimed, kept alive, and committed under its fence, whoever asks for it.

A person, the schedule, the UI and a rescue all come through here, so that a calibration is done by one at a time,
and counts for the library's videos from the moment its job succeeded, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import (
    BadSettings,
    EnvironmentalError,
    PermanentError,
    PipelineError,
    UnknownLibrary,
    code_of,
    named,
    printable,
)
from content_pipeline.execution.rescue import Moment, rescue_orphans
from content_pipeline.execution.worker_identity import is_gone, this_worker
from content_pipeline.failpoints import reached
from content_pipeline.job_kinds import CALIBRATION
from content_pipeline.library.keys import canonical_path
from content_pipeline.library.recipe import calibrated_recipe
from content_pipeline.manifest.calibrations import AppliedCalibration
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure, JobRequest, JobResult, Lease
from content_pipeline.manifest.transitions import LostLease
from content_pipeline.settings import Settings
from content_pipeline.stage import StageName
from content_pipeline.stages.calibration import Library, calibration, values_to_try
from content_pipeline.stages.calibration_document import CalibrationDocument, CalibrationResults
from content_pipeline.stages.context import Progress, StageContext, StageResult, no_progress
from content_pipeline.stages.cost import Meter

STAGE: StageName = "calibration"
# The settings that say which curves there are, and what is picked of them.
ASKED_UNDER = ("energy", "detection", "processing", "output", "calibration")


class BeingCalibrated(PermanentError):
    code = "being_calibrated"
    hint = "Wait for it to end, or stop it with `content-ai queue cancel`."


class Paused(EnvironmentalError):
    code = "paused"
    hint = "`content-ai queue status` says why; `content-ai queue resume --pauses` ends the pause."


class Stopped(PermanentError):
    code = "calibration_stopped"
    hint = "Somebody cancelled it; nothing was applied."


@dataclass(frozen=True)
class Calibrated:
    """What came of it: `applied` is None when no value was chosen, for want of a target or of a difference."""

    result: StageResult
    applied: AppliedCalibration | None

    @property
    def document(self) -> CalibrationDocument:
        return CalibrationDocument.of(self.result.artifact)

    @property
    def told(self) -> str:
        if self.applied is not None:
            return f"{self.applied.name} {self.applied.value:g}"
        found = self.document
        why = "no target is set" if found.target is None else "; ".join(found.remarks)
        return f"{why}: nothing was applied"


@dataclass(frozen=True)
class Calibrator:
    """Whoever calibrates: with which settings, on how many cores, and whom to tell how far it is."""

    settings: Settings
    manifest: Manifest
    cores: int = 1
    progress: Progress = no_progress
    stop_for_good: bool = False  # asked to stop, the job waits for a person, and not for the next worker

    def look(self, folder: Path) -> StageResult:
        """What each value would pick. Applies nothing, and asks for no job."""
        return calibration(self._context(self.settings, self.progress), self.library(folder))

    def calibrate(self, folder: Path, reason: str) -> Calibrated:
        """Ask for the library's job, and do it."""
        library = self.library(folder)
        values_to_try(self.settings, library.applied)  # what cannot be asked for is refused before there is a job
        rescue_orphans(self.manifest)
        found, claimed = self.manifest.jobs.ask_and_claim(self._request(folder), reason, this_worker())
        reached("calibration_claimed")
        if claimed is None:
            raise self._why_not(found)
        return self._carry_out(claimed)

    def _why_not(self, job: Job) -> PipelineError:
        if job.status is State.RUNNING:
            return BeingCalibrated(f"{printable(job.library)} is already being calibrated by worker {job.worker_id}")
        return Paused(f"the calibration of {printable(job.library)} is waiting: work is paused")

    def take(self, job_id: str) -> Calibrated | None:
        """Do a job that was asked for before; None when it cannot be claimed, or not yet."""
        job = self.manifest.jobs.get(job_id)
        if job.worker_id is not None and is_gone(job.worker_id):
            rescue_orphans(self.manifest)
        claimed = self._claim([job_id])
        return None if claimed is None else self._carry_out(claimed)

    def take_all(self) -> Iterator[tuple[Job, Calibrated | Exception]]:
        """Do every job that is due, one after the other; one that fails does not keep the others waiting."""
        while (claimed := self._claim(None)) is not None:
            try:
                outcome: Calibrated | Exception = self._carry_out(claimed)
            except Exception as error:  # noqa: BLE001 - the job says so, and whoever asked is told
                outcome = named(error)
            yield claimed, outcome

    def library(self, folder: Path) -> Library:
        """What is known of the library with this folder."""
        root = canonical_path(folder)
        files = self.manifest.videos.of_library(root)
        unread = self.manifest.libraries.unidentified(root)
        if not files and not unread:
            raise UnknownLibrary(f"no video is known of the library {printable(root)}{self._where_it_is(root)}")
        return Library(root, files, unread, self.manifest.calibrations.of_library(root))

    def _where_it_is(self, root: Path) -> str:
        """A folder inside a library, or around some, is none of its own."""
        known = self.manifest.libraries.roots()
        near = [str(one) for one in known if one in root.parents or root in one.parents]
        return f"; its recordings belong to {', '.join(map(printable, near))}" if near else ""

    # --- one job

    def _request(self, folder: Path) -> JobRequest:
        queue, root = self.settings.queue, str(canonical_path(folder))
        return JobRequest(
            subject=root,
            library=root,
            kind=CALIBRATION,
            max_attempts=queue.max_attempts,
            max_crashes=queue.max_crashes,
            options={name: getattr(self.settings, name).model_dump(mode="json") for name in ASKED_UNDER},
        )

    def _claim(self, job_ids: list[str] | None) -> Job | None:
        claimed = self.manifest.jobs.claim(ClaimRequest(this_worker(), 1, CALIBRATION, job_ids))
        reached("calibration_claimed")
        return claimed[0] if claimed else None

    def _carry_out(self, job: Job) -> Calibrated:
        """Whatever happens is said of the job: only a process that dies leaves it to a rescue."""
        lease = job.lease
        try:
            return self._work(job)
        except (LostLease, Stopped):
            raise
        except Exception as error:
            known = named(error)
            policy = type(known).policy if isinstance(known, PipelineError) else PipelineError.policy
            self.manifest.jobs.fail(lease, JobFailure(code_of(known), str(known), policy, STAGE))
            raise
        except BaseException:
            if self.stop_for_good:
                self.manifest.jobs.stop_cancelled(lease)
            else:
                self.manifest.jobs.release(lease, "the worker was asked to stop")
            raise

    def _work(self, job: Job) -> Calibrated:
        settings, meter = self._settings_of(job), Meter()
        beat = _Heartbeat(self.manifest, job.lease, settings.queue.heartbeat_s, self.progress)
        result = calibration(self._context(settings, beat), self.library(Path(job.library)))
        reached("calibration_decided")
        applied = _as_applied(job.library, settings, result)
        if applied is not None:  # so that a plan can tell what changed
            recipe = calibrated_recipe(settings, applied)
            self.manifest.recipes.remember(recipe.config_hash, recipe.as_json())
        if not self.manifest.calibrations.succeed_job(job.lease, _result(result, applied, meter), applied):
            raise _stopped(job.lease)
        reached("calibration_committed")
        return Calibrated(result, applied)

    def _settings_of(self, job: Job) -> Settings:
        """As they are now, with what was asked of this job: whoever takes it up again does the same."""
        options = {} if job.options is None else job.options
        now = {name: getattr(self.settings, name) for name in ASKED_UNDER}
        try:
            asked = {
                name: type(section).model_validate({**section.model_dump(), **options.get(name, {})})
                for name, section in now.items()
            }
        except (AttributeError, TypeError, ValidationError) as error:
            why = " ".join(str(error).split())  # one line
            raise BadSettings(f"the request of job {job.job_id} cannot be understood: {why}") from error
        return self.settings.model_copy(update=asked)

    def _context(self, settings: Settings, progress: Progress) -> StageContext:
        return StageContext(
            settings=settings,
            artifacts=ArtifactStore(settings.state_dir.absolute() / "artifacts", settings.queue.lease_s),
            videos=self.manifest.videos,
            publications=self.manifest.publications,
            progress=progress,
            cores=self.cores,
        )


def _stopped(lease: Lease) -> Stopped:
    return Stopped(f"the calibration (job {lease.job_id}) was cancelled")


def _as_applied(library: str, settings: Settings, result: StageResult) -> AppliedCalibration | None:
    value, setting = result.artifact.facts["value"], settings.calibration.setting
    return None if value is None else AppliedCalibration(library, settings.detection.preset, setting, value, result.key)


def _result(result: StageResult, applied: AppliedCalibration | None, meter: Meter) -> JobResult:
    found = CalibrationDocument.of(result.artifact)
    return JobResult(
        stage_keys={STAGE: result.key},
        results=CalibrationResults.of(found, applied is not None).model_dump(mode="json"),
        cost={STAGE: {**meter.spent(), "reused": result.reused}},
    )


@dataclass
class _Heartbeat:
    """Keeps the lease while the work gets on, and hears of a person's wish to stop."""

    manifest: Manifest
    lease: Lease
    every_s: float
    progress: Callable[[StageName, float], None]
    _last: Moment = field(default_factory=Moment)

    def __call__(self, stage: StageName, fraction: float) -> None:
        self.progress(stage, fraction)
        if not self._last.is_past(self.every_s):
            return
        renewal = self.manifest.jobs.renew(self.lease.worker_id, [self.lease])
        self._last = Moment()
        if renewal.lost:
            raise LostLease(f"the lease on job {self.lease.job_id} was lost while it was worked on")
        if renewal.cancelled:
            self.manifest.jobs.stop_cancelled(self.lease)
            raise _stopped(self.lease)
        self.manifest.jobs.report_progress(self.lease, {"stage": stage, "fraction": round(fraction, 2)})
