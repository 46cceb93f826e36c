"""Process recordings: bring a folder up to date, or work on what waits in the queue."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.dagster_runtime.lost_manifest import describe_rebuilt, recover
from content_pipeline.errors import BadSettings, EnvironmentalError, LibraryOffline, code_of, printable
from content_pipeline.execution.outcome import NullWatcher, Outcome, Watcher, of_job, refused
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.library.plan import Action
from content_pipeline.library.scan import Scan
from content_pipeline.manifest.breaker import EVERYTHING, Breaker
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.lifecycle import CLAIMABLE
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_manifest, open_named_manifest
from content_pipeline.manifest.requirements import met_by
from content_pipeline.services.document import Document
from content_pipeline.services.outcome_recorder import OutcomeRecorder
from content_pipeline.services.pauses import Pause
from content_pipeline.services.planner import Enqueued, Planner, command_terms
from content_pipeline.services.processing_document import (
    CalibrationOutcome,
    ProcessingDocument,
    VideoOutcome,
    totals_of,
)
from content_pipeline.services.recordings import FoundRecordings, describe_found, find_recordings
from content_pipeline.settings import QueueSettings, Settings
from content_pipeline.settings.job_options import JobOptions

if TYPE_CHECKING:
    from content_pipeline.dagster_runtime.runs import Compose

UNSETTLED = "unsettled"


class StopRequest(Protocol):
    """Something that can be asked whether to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


class NeverStop:
    def is_set(self) -> bool:
        return False


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
    if not request.only_enqueue:
        _expect_capability(settings.queue)
    manifest = open_manifest(settings)
    manifest.roots.expect()
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


def _expect_capability(queue: QueueSettings) -> None:
    """What is processed here has to be claimed here."""
    if queue.requires not in met_by(queue.capabilities):
        raise BadSettings(
            f"`queue.requires` = {queue.requires!r}, which `queue.capabilities` of this machine does not name",
            hint="With `--no-process` a worker that can do it takes it; `--set queue.requires=none` does it here.",
        )


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
    manifest.roots.expect()
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


class Processor:
    """`outcomes` grows as videos end; it holds everything that is known when the work is interrupted."""

    def __init__(self, settings: Settings, manifest: Manifest, watcher: Watcher, force: bool = False) -> None:
        self._settings = settings
        self.manifest = manifest
        manifest.set_retry_time(settings.queue.give_up_s)  # from now on; what cannot be opened is told at once
        self._watcher = watcher
        self._planner = Planner(settings, manifest, command_terms(settings, force))
        self._recorder = OutcomeRecorder(manifest, watcher)
        self._libraries: set[str] = set()
        self._stopped_by: EnvironmentalError | None = None
        self.left_out = 0  # videos that need work too, beyond the limit that was asked for

    @property
    def outcomes(self) -> Sequence[Outcome]:
        return self._recorder.outcomes

    def enqueue(self, scan: Scan, most: int | None = None) -> list[str]:
        """Write the plan into the manifest. Returns the jobs to be worked on, and notes what needs no work."""
        self._libraries.add(str(scan.root))
        self._recorder.asked = JobOptions.of(self._settings)
        enqueued = self._planner.enqueue(scan, most)
        self.left_out = enqueued.planned.left_out
        idle = self._idle(scan, enqueued)
        to_do = {Path(job.subject) for job in enqueued.jobs}
        sizes = {found.path: found.signature.size_bytes for found in scan.recordings if found.path in to_do}
        self._watcher.expect(len(idle) + len(to_do), sizes)
        for outcome in idle:
            self._recorder.ended(outcome)
        self._recorder.plan(enqueued.jobs, enqueued.planned.to_run)
        return [job.job_id for job in enqueued.jobs]

    def _idle(self, scan: Scan, enqueued: Enqueued) -> list[Outcome]:
        """What is told of and not worked on."""
        idle = [refused(one.path, one.error) for one in scan.refused]
        for found in enqueued.unsettled:
            idle.append(Outcome(found.path, status=UNSETTLED, note="still being written; left alone for now"))
        for video in enqueued.planned.videos:
            if video.job is not None and not video.will_run:
                outcome = of_job(video.found.path, video.job, video.note)
                if video.action is Action.KEEP:
                    self._recorder.keep(outcome)
                else:
                    idle.append(outcome)
        return idle

    def work(
        self,
        compose: Compose,
        job_ids: Sequence[str] | None,
        max_jobs: int | None = None,
        stop: StopRequest = NEVER_STOP,
    ) -> bool:
        """Work until nothing is left to do: on these jobs, or on all that wait. False when asked to stop before."""
        if job_ids is None:
            rescue_orphans(self.manifest)
            waiting = self._waiting(max_jobs)
            self._watcher.expect(waiting)
        else:
            waiting = len(job_ids)
        if not waiting:
            return True  # and Dagster was never loaded
        from content_pipeline.dagster_runtime.runs import DagsterRuns
        from content_pipeline.execution.queue_worker import Worker
        from content_pipeline.launchers.abandoned_runs import close_all_abandoned

        close_all_abandoned(self._settings, self.manifest)
        artifacts = ArtifactStore(self._settings.state_dir.absolute() / "artifacts")
        artifacts.sweep()
        make_runs = partial(DagsterRuns, compose=compose)
        worker = Worker(self._settings, self.manifest, make_runs, self._recorder)
        self.manifest.breakers.close()  # a person asks for it: try at once, and pause again if need be
        try:
            finished = worker.work(job_ids, max_jobs, self.paused, stop.is_set)
        finally:
            artifacts.sweep()  # a child that was killed leaves its draft
        # After an interruption too, what is told is what the manifest says, if it can be asked.
        with contextlib.nullcontext() if finished else contextlib.suppress(EnvironmentalError):
            self._recorder.look_again()
        return finished

    def _waiting(self, max_jobs: int | None) -> int:
        """How many jobs wait in the queue, or how many of them are asked for."""
        counts = self.manifest.jobs.counts()
        waiting = sum(counts[state] for state in CLAIMABLE)
        return waiting if max_jobs is None else min(waiting, max_jobs)

    def stopped_by(self, error: EnvironmentalError) -> None:
        """The work could not go on for a reason that is nobody's job's."""
        self._stopped_by = error

    def paused(self) -> list[Breaker]:
        """The pauses that keep work of this call waiting right now."""
        if self._stopped_by is not None:
            return [Breaker(EVERYTHING, self._stopped_by.code, message=str(self._stopped_by))]
        now = datetime.now(UTC)
        held_up = [breaker for breaker in self.manifest.breakers.all() if breaker.is_open(now)]
        return [one for one in (*held_up, *self.manifest.roots.only_elsewhere()) if self._waits_for(one)]

    def _waits_for(self, breaker: Breaker) -> bool:
        if not self._libraries:
            return True
        codes = {None, *self._recorder.unfinished_errors}
        return any(breaker.blocks(library, code) for library in self._libraries for code in codes)


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
