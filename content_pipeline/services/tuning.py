"""Tune a library: what each threshold would pick, applying the one that reaches a target, and taking it back."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from content_pipeline.errors import BadSettings
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.library.keys import canonical_path
from content_pipeline.manifest.calibrations import AppliedCalibration
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_named_manifest
from content_pipeline.media.selection.tuning import target_of
from content_pipeline.services.calibrating import Calibrator
from content_pipeline.services.document import Document
from content_pipeline.settings import Settings
from content_pipeline.stages.calibration_document import CalibrationDocument
from content_pipeline.stages.context import StageResult

BY_HAND = "asked for by a person"


class AppliedValue(Document):
    """A value that a library uses in place of the settings."""

    setting: str
    value: float
    preset: str
    key: str
    at: datetime | None

    @classmethod
    def of(cls, applied: AppliedCalibration) -> AppliedValue:
        return cls(
            setting=applied.setting,
            value=applied.value,
            preset=applied.preset,
            key=applied.key,
            at=applied.applied_at,
        )


class TuningDocument(CalibrationDocument, Document):
    """What was found, and what the library uses: `applied` after this call, `applied_before` until then.

    `without_curves` counts the videos that were left out; `failed` those of them that could not be processed.
    """

    key: str
    reused: bool
    videos: int
    without_curves: int
    failed: int
    applied: AppliedValue | None
    applied_before: AppliedValue | None
    applied_now: bool

    @property
    def other_setting(self) -> AppliedValue | None:
        """A calibration in use that is about another setting than the table: applying a value would replace it."""
        applied = self.applied_before
        return applied if applied is not None and self.now.calibrated and applied.setting != self.setting else None


class ResetDocument(Document):
    """What a reset found: what was used until then, and the calibrations that were waiting or running."""

    library: str
    was_applied: AppliedValue | None
    cancelled: int
    asked_to_stop: int


def look(settings: Settings, folder: Path) -> TuningDocument:
    """What each value would pick of a library. Applies nothing."""
    manifest = open_named_manifest(settings, Access.USE)
    result = Calibrator(settings, manifest, settings.worker_count).look(folder)
    applied = _applied(manifest, folder)
    failed = _failed_without_curves(manifest, folder, result)
    return _document(result, failed, applied, applied, False)


def can_apply(settings: Settings) -> bool:
    """Whether the settings say which value is wanted: by a target, or by naming it."""
    return target_of(settings.calibration) is not None or len(settings.calibration.values) == 1


def apply(settings: Settings, folder: Path) -> TuningDocument:
    """Find the value and use it for the library's videos from now on."""
    if not can_apply(settings):
        raise BadSettings("applying a value needs a target (`calibration.montage_s` or `per_hour`), or a single value")
    manifest = open_named_manifest(settings, Access.USE)
    before = _applied(manifest, folder)
    manifest.breakers.close()  # a person asks for it: try at once, and pause again if need be
    done = Calibrator(settings, manifest, settings.worker_count).calibrate(folder, BY_HAND)
    failed = _failed_without_curves(manifest, folder, done.result)
    return _document(done.result, failed, _applied(manifest, folder), before, done.applied is not None)


def reset(settings: Settings, folder: Path) -> ResetDocument:
    """Use the settings again; a calibration that waits or runs is not applied either."""
    root = str(canonical_path(folder))
    manifest = open_named_manifest(settings, Access.USE)
    rescue_orphans(manifest)  # one whose process died waits, and is not asked to stop
    done = manifest.calibrations.reset(root)
    return ResetDocument(
        library=root,
        was_applied=None if done.was_applied is None else AppliedValue.of(done.was_applied),
        cancelled=done.cancelled,
        asked_to_stop=done.asked_to_stop,
    )


def _applied(manifest: Manifest, folder: Path) -> AppliedValue | None:
    applied = manifest.calibrations.of_library(canonical_path(folder))
    return None if applied is None else AppliedValue.of(applied)


def _failed_without_curves(manifest: Manifest, folder: Path, result: StageResult) -> int:
    """How many of those that were left out could not be processed: nothing will give them curves."""
    with_curves = {one.video for one in CalibrationDocument.of(result.artifact).inputs.videos}
    job_filter = JobFilter(kind=PROCESSING, library=str(canonical_path(folder)), status=State.FAILED)
    return sum(job.video_key not in with_curves for job in manifest.jobs.list(job_filter))


def _document(
    result: StageResult,
    failed: int,
    applied: AppliedValue | None,
    before: AppliedValue | None,
    applied_now: bool,
) -> TuningDocument:
    facts = result.artifact.facts
    return TuningDocument(
        **dict(CalibrationDocument.of(result.artifact)),
        key=result.key,
        reused=result.reused,
        videos=facts["videos"],
        without_curves=facts["without_curves"],
        failed=failed,
        applied=applied,
        applied_before=before,
        applied_now=applied_now,
    )
