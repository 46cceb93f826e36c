"""Process recordings: bring a folder up to date, or work on what waits in the queue."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from content_pipeline.dagster_runtime.lost_manifest import describe_rebuilt, recover
from content_pipeline.errors import EnvironmentalError, LibraryOffline, code_of, printable
from content_pipeline.execution.outcome import NullWatcher, Watcher
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.library.scan import Scan
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_manifest, open_named_manifest
from content_pipeline.services.document import Document
from content_pipeline.services.pauses import Pause
from content_pipeline.services.processing_document import (
    CalibrationOutcome,
    ProcessingDocument,
    VideoOutcome,
    totals_of,
)
from content_pipeline.services.processor import NeverStop, Processor, StopRequest
from content_pipeline.services.recordings import FoundRecordings, describe_found, find_recordings
from content_pipeline.settings import Settings

if TYPE_CHECKING:
    from content_pipeline.dagster_runtime.runs import Compose

NEVER_STOP = NeverStop()


class ProcessRequest(Document):
    """A recording, or a folder of them. `limit`: at most so many that need work; `force`: reuse nothing older."""

    target: Path
    force: bool = False
    limit: int | None = None
    only_enqueue: bool = False


class ProcessingWatcher(Watcher, Protocol):
    """Whoever is told while the work goes on; a method returns soon, for the work waits for it."""

    def rebuilt(self, message: str) -> None:
        """The manifest was new or empty, and was rebuilt from Dagster's records."""

    def found(self, found: FoundRecordings) -> None: ...

    def calibrated(self, outcome: CalibrationOutcome) -> None: ...


class NoProgress(NullWatcher):
    """Nobody watches."""

    def rebuilt(self, message: str) -> None:
        pass

    def found(self, found: FoundRecordings) -> None:
        pass

    def calibrated(self, outcome: CalibrationOutcome) -> None:
        pass


def process(
    settings: Settings,
    request: ProcessRequest,
    compose: Compose,
    watcher: ProcessingWatcher,
    stop: StopRequest = NEVER_STOP,
) -> ProcessingDocument:
    """Bring a folder up to date: scan, plan, enqueue, work. `compose` makes the definitions that runs are made of.

    Raises what keeps it from beginning; what stops it later is in the document (`paused`, `interrupted`).
    """
    started_s, finished = time.monotonic(), True
    manifest = open_manifest(settings)
    # Before the scan, which knows by the manifest what is a recording and what we made of one.
    problem = _recover(settings, manifest, watcher)
    found = find_recordings(settings, request.target, manifest)
    watcher.found(describe_found(settings, request.target, found, manifest))
    processor = Processor(settings, manifest, watcher, request.force)
    try:
        if problem is not None:
            raise problem
        jobs = processor.enqueue(found, request.limit)
        finished = request.only_enqueue or processor.work(compose, jobs, stop=stop)
    except LibraryOffline:
        raise
    except EnvironmentalError as error:
        processor.stopped_by(error)
    return _document(processor, found, (), not finished, time.monotonic() - started_s)


def process_queue(
    settings: Settings,
    compose: Compose,
    watcher: ProcessingWatcher,
    stop: StopRequest = NEVER_STOP,
    max_jobs: int | None = None,
) -> ProcessingDocument:
    """Work on the jobs that wait, whatever folder they came from. Enqueues nothing, and makes no manifest."""
    started_s, finished = time.monotonic(), True
    manifest = open_named_manifest(settings, Access.USE)
    rescue_orphans(manifest)
    # First, for they say what videos are decided with.
    calibrations = _calibrate(settings, manifest, watcher, stop, max_jobs)
    left = None if max_jobs is None else max_jobs - len(calibrations)
    processor = Processor(settings, manifest, watcher)
    try:
        finished = not stop.is_set() and processor.work(compose, None, left, stop)
    except EnvironmentalError as error:
        processor.stopped_by(error)
    return _document(processor, None, calibrations, not finished, time.monotonic() - started_s)


def _recover(settings: Settings, manifest: Manifest, watcher: ProcessingWatcher) -> EnvironmentalError | None:
    try:
        rebuilt = recover(settings, manifest)
    except EnvironmentalError as error:
        return error
    if rebuilt is not None:
        state = printable(settings.state_dir.absolute())
        used = f"The database {manifest.name} is new or empty, but {state} was used before"
        watcher.rebuilt(f"{used}: {describe_rebuilt(rebuilt)}")
    return None


class _AskedToStop(BaseException):
    """Passes through a calibration, which gives its job back."""


def _calibrate(
    settings: Settings, manifest: Manifest, watcher: ProcessingWatcher, stop: StopRequest, most: int | None
) -> tuple[CalibrationOutcome, ...]:
    """Do the calibrations that are due."""
    from content_pipeline.services.calibrating import Calibrator

    def progress(_stage: str, _fraction: float) -> None:
        if stop.is_set():
            raise _AskedToStop

    outcomes: list[CalibrationOutcome] = []
    try:
        for job, done in islice(Calibrator(settings, manifest, settings.worker_count, progress).take_all(), most):
            if isinstance(done, Exception):
                outcome = CalibrationOutcome(library=job.library, error_code=code_of(done), error=str(done))
            else:
                outcome = CalibrationOutcome(library=job.library, result=done.describe())
            outcomes.append(outcome)
            watcher.calibrated(outcome)
    except _AskedToStop:
        pass
    return tuple(outcomes)


def _document(
    processor: Processor,
    found: Scan | None,
    calibrations: tuple[CalibrationOutcome, ...],
    interrupted: bool,
    seconds: float,
) -> ProcessingDocument:
    videos = tuple(VideoOutcome.of(outcome) for outcome in processor.outcomes)
    passed_over = {} if found is None else {**found.passed_over, **found.other_endings}
    return ProcessingDocument(
        videos=videos,
        passed_over=passed_over,
        changed_outputs=() if found is None else tuple(str(path) for path in found.changed_outputs),
        totals=totals_of(videos, passed_over, seconds),
        left_out=processor.left_out,
        paused=tuple(Pause.of(breaker) for breaker in processor.paused()),
        calibrations=calibrations,
        interrupted=interrupted,
    )
