"""Calibration: the threshold of a library is found, and applies to its videos from the moment the job succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from content_pipeline import job_kinds
from content_pipeline.errors import BadSettings, UnknownLibrary, printable
from content_pipeline.execution.child_report import ChildReport
from content_pipeline.execution.job_kinds.handler import Dispatch, Prepared, Refused, is_under_way
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.messages import WorkEnded
from content_pipeline.execution.names import CALIBRATE_LIBRARY, LIBRARY_PARTITIONS
from content_pipeline.execution.reporter import PipeReporter
from content_pipeline.execution.rescue import current_job
from content_pipeline.execution.run_context import current_run
from content_pipeline.failpoints import failpoint
from content_pipeline.library.keys import canonical_path, library_key
from content_pipeline.library.recipe import calibrated_recipe
from content_pipeline.manifest.calibrations import AppliedCalibration
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job, JobRequest, JobResult
from content_pipeline.settings import Settings
from content_pipeline.stage import StageName
from content_pipeline.stages.context import StageContext, StageResult
from content_pipeline.stages.cost import Meter

if TYPE_CHECKING:
    from content_pipeline.stages.calibration import CalibrationLibrary
    from content_pipeline.stages.calibration_document import CalibrationDocument

STAGE: StageName = "calibration"
BY_RUN = "a run was started"
# The settings that say which curves there are, and what is picked of them.
ASKED_UNDER = ("energy", "detection", "processing", "output", "calibration")


@dataclass(frozen=True)
class Calibrated:
    """What came of it: `applied` is None when no value was chosen, for want of a target or of a difference."""

    result: StageResult
    applied: AppliedCalibration | None

    @property
    def document(self) -> CalibrationDocument:
        from content_pipeline.stages.calibration_document import CalibrationDocument

        return CalibrationDocument.of(self.result.artifact)

    def describe(self) -> str:
        if self.applied is not None:
            return f"{self.applied.name} {self.applied.value:g}"
        return f"{self.why_not}: nothing was applied"

    @property
    def why_not(self) -> str:
        """Why nothing was applied."""
        found = self.document
        return "no target is set" if found.target is None else "; ".join(found.remarks)


class CalibrationHandler:
    kind = job_kinds.CALIBRATION
    dagster_job = CALIBRATE_LIBRARY
    description = "Finds the threshold that reaches the target in the settings, and applies it to a library."
    partitions = LIBRARY_PARTITIONS
    stages: tuple[StageName, ...] = (STAGE,)
    dispatch = Dispatch(
        sensor="dispatch_calibrations",
        interval_s=30,
        description="Requests a run for each calibration that was interrupted or is retried.",
        nothing_due="No calibration is waiting.",
    )
    needs_run = False
    goes_with_file = False

    def partition_key(self, job: Job, manifest: Manifest) -> str:
        return library_key(Path(job.library))

    def settings_of(self, job: Job, settings: Settings) -> Settings:
        """As they are now, with what was asked of this job: whoever takes it up again does the same."""
        options = {} if job.options is None else job.options
        now = {name: getattr(settings, name) for name in ASKED_UNDER}
        try:
            asked = {
                name: type(section).model_validate({**section.model_dump(), **options.get(name, {})})
                for name, section in now.items()
            }
        except (AttributeError, TypeError, ValidationError) as error:
            why = " ".join(str(error).split())  # one line
            raise BadSettings(f"the request of job {job.job_id} cannot be understood: {why}") from error
        return settings.model_copy(update=asked)

    def config_hash(self, settings: Settings) -> str | None:
        return None

    def request(self, folder: Path, settings: Settings, manifest: Manifest) -> JobRequest:
        """What is asked of a library; what cannot be asked for is refused before there is a job."""
        from content_pipeline.stages.calibration import values_to_try

        root = canonical_path(folder)
        values_to_try(settings, library_at(root, manifest).applied)
        return JobRequest(
            subject=str(root),
            library=str(root),
            kind=self.kind,
            max_attempts=settings.queue.max_attempts,
            max_crashes=settings.queue.max_crashes,
            options={name: getattr(settings, name).model_dump(mode="json") for name in ASKED_UNDER},
        )

    def job_by_hand(self, launch: Launch, settings: Settings, manifest: Manifest) -> Job | Refused:
        root = library_with_key(str(launch.partition_key), manifest)
        request = self.request(root, launch.overrides.onto(settings), manifest)
        known = manifest.jobs.find(self.kind, request.subject)
        running = None if known is None else current_job(manifest, known.job_id)
        if running is not None and is_under_way(running, launch):
            return running
        if running is not None and running.status is State.RUNNING:
            return Refused(f"{printable(root)} is already being calibrated by worker {running.worker_id}")
        return manifest.jobs.ask(request, BY_RUN)

    # --- in the child

    def prepare(self, job: Job, settings: Settings, manifest: Manifest, reporter: PipeReporter) -> Prepared:
        self.settings_of(job, settings)
        library_at(Path(job.library), manifest)
        key = library_key(Path(job.library))
        return Prepared(key, f"{printable(job.library)} is the library {key}")

    def execute(self, context: StageContext, job: Job, manifest: Manifest) -> None:
        meter = Meter()
        done = calibrate(context, Path(job.library), manifest)
        current_run().reporter.finished(done.result, meter.spent())

    def end(self, ended: WorkEnded, job: Job, manifest: Manifest) -> WorkEnded:
        return ended

    # --- in the parent

    def is_complete(self, report: ChildReport) -> bool:
        """One whose stage was finished by a process that died has nothing to apply, and is done again."""
        return STAGE in report.finished and report.results is not None

    def commit(self, report: ChildReport, job: Job, manifest: Manifest) -> bool:
        assert report.results is not None, "only what is complete is committed"
        applied = report.results["applied"]
        result = JobResult(
            stage_keys=report.stage_keys,
            results=report.results["results"],
            cost={stage: dict(one.cost) for stage, one in report.finished.items()},
        )
        calibration = None if applied is None else AppliedCalibration(**applied)
        return manifest.calibrations.succeed_job(job.lease, result, calibration)

    def describe_request(self, job: Job) -> Iterator[str]:
        yield from ()


def calibrate(context: StageContext, root: Path, manifest: Manifest) -> Calibrated:
    """Find the value, and report it: it is applied when the job is committed, and never without one."""
    from content_pipeline.stages.calibration import calibration
    from content_pipeline.stages.calibration_document import CalibrationDocument, CalibrationResults

    result = calibration(context, library_at(root, manifest))
    failpoint("calibration_decided")
    run = current_run()
    applied = None if run.lease is None else applied_by(str(root), context.settings, result)
    if applied is not None:  # so that a plan can tell what changed
        recipe = calibrated_recipe(context.settings, applied)
        manifest.recipes.remember(recipe.config_hash, recipe.as_json())
    kept = CalibrationResults.of(CalibrationDocument.of(result.artifact), applied is not None)
    run.reporter.results(
        {"results": kept.model_dump(mode="json"), "applied": None if applied is None else asdict(applied)}
    )
    return Calibrated(result, applied)


def library_at(folder: Path, manifest: Manifest) -> CalibrationLibrary:
    """What is known of the library with this folder."""
    from content_pipeline.stages.calibration import CalibrationLibrary

    root = canonical_path(folder)
    files = manifest.videos.of_library(root)
    unread = manifest.libraries.unidentified(root)
    if not files and not unread:
        near = [str(one) for one in manifest.libraries.roots() if one in root.parents or root in one.parents]
        where = f"; its recordings belong to {', '.join(map(printable, near))}" if near else ""
        raise UnknownLibrary(f"no video is known of the library {printable(root)}{where}")
    return CalibrationLibrary(root, files, unread, manifest.calibrations.of_library(root))


def library_with_key(key: str, manifest: Manifest) -> Path:
    library = next((root for root in manifest.libraries.roots() if library_key(root) == key), None)
    if library is None:
        raise UnknownLibrary(f"no library is known by the key {key}")
    return library


def applied_by(library: str, settings: Settings, result: StageResult) -> AppliedCalibration | None:
    """What a calibration with these settings applies to its library, if it found a value."""
    value, setting = result.artifact.facts["value"], settings.calibration.setting
    return None if value is None else AppliedCalibration(library, settings.detection.preset, setting, value, result.key)
