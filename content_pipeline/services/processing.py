"""Bring a folder of recordings up to date: plan, enqueue, work, and tell what became of each."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.dagster_runtime.manifest_recovery import recover
from content_pipeline.errors import EnvironmentalError
from content_pipeline.execution.outcome import Outcome, Watcher, of_job, refused
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.library.plan import Action, LibraryPlan
from content_pipeline.library.scan import Scan
from content_pipeline.manifest.breaker import EVERYTHING, Breaker
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.model import JobTerms
from content_pipeline.services.planning import Enqueued, Planner
from content_pipeline.settings import Settings
from content_pipeline.settings.job_options import JobOptions

if TYPE_CHECKING:
    from content_pipeline.dagster_runtime.runs import Compose

UNSETTLED = "unsettled"
SUPERSEDED = "superseded"
UNFINISHED = ("pending", "dirty", "running", "lost")


class Batch:
    """`outcomes` grows as videos end; it holds everything that is known when the batch is interrupted."""

    def __init__(self, settings: Settings, watcher: Watcher, force: bool = False, access: Access = Access.MAKE) -> None:
        self._settings = settings
        self._watcher = watcher
        self._options = JobOptions.of(settings)
        terms = JobTerms(self._options.as_json(), new_ulid() if force else None)
        self._planner = Planner(settings, terms, access)
        self.manifest = self._planner.manifest
        self.manifest.set_retry_time(settings.queue.give_up_s)  # from now on; what cannot be opened is told at once
        self._outcomes: dict[Path, Outcome] = {}
        self._libraries: set[str] = set()
        self._stopped_by: EnvironmentalError | None = None
        self.left_out = 0  # videos that need work too, beyond the limit that was asked for

    @property
    def outcomes(self) -> Sequence[Outcome]:
        return [self._outcomes[path] for path in sorted(self._outcomes)]

    def plan(self, scan: Scan, most: int | None = None) -> LibraryPlan:
        """What would be done, and why. Changes nothing."""
        return self._planner.plan(scan, most)

    def recent_costs(self) -> Sequence[dict[str, Any]]:
        return self.manifest.jobs.recent_costs()

    def enqueue(self, scan: Scan, most: int | None = None) -> list[str]:
        """Write the plan into the manifest. Returns the jobs to be worked on, and notes what needs no work."""
        self._libraries.add(str(scan.root))
        recover(self._settings, self.manifest)
        enqueued = self._planner.enqueue(scan, most)
        self.left_out = enqueued.planned.left_out
        idle = self._idle(scan, enqueued)
        to_do = {Path(job.subject) for job in enqueued.jobs}
        sizes = {found.path: found.signature.size_bytes for found in scan.recordings if found.path in to_do}
        self._watcher.expect(len(idle) + len(to_do), sizes)
        for outcome in idle:
            self._end(outcome)
        videos = {video.found.path: video for video in enqueued.planned.to_run}
        for job in enqueued.jobs:
            path = Path(job.subject)
            outcome = self._unless_superseded(of_job(path, job))
            self._outcomes[path] = replace(outcome, reasons=videos[path].reasons, why=videos[path].why)
        self._note_copies()
        return [job.job_id for job in enqueued.jobs]

    def _idle(self, scan: Scan, enqueued: Enqueued) -> list[Outcome]:
        """What is told of and not worked on; what is up to date is only kept, for there may be 10,000."""
        idle = [refused(one.path, one.error) for one in scan.refused]
        for found in enqueued.unsettled:
            idle.append(Outcome(found.path, status=UNSETTLED, note="still being written; left alone for now"))
        for video in enqueued.planned.videos:
            if video.job is not None and not video.will_run:
                outcome = of_job(video.found.path, video.job, video.note)
                if video.action is Action.KEEP:
                    self._outcomes[outcome.path] = outcome
                else:
                    idle.append(outcome)
        return idle

    def work(self, compose: Compose, job_ids: Sequence[str] | None, max_jobs: int | None = None) -> None:
        """Rescue what others left behind, then work until nothing is left to do here."""
        if job_ids is None:
            rescue_orphans(self.manifest)
            self._watcher.expect(self._waiting(max_jobs))
        if job_ids is not None and not job_ids:
            return  # and Dagster was never loaded
        from content_pipeline.dagster_runtime.runs import DagsterRuns
        from content_pipeline.execution.queue_worker import Worker
        from content_pipeline.launchers.local.abandoned_runs import close_all_abandoned

        close_all_abandoned(self._settings, self.manifest)
        artifacts = ArtifactStore(self._settings.state_dir.absolute() / "artifacts")
        artifacts.sweep()
        make_runs = partial(DagsterRuns, compose=compose)
        worker = Worker(self._settings, self.manifest, make_runs, OutcomeRecorder(self))
        self.manifest.breakers.close()  # a person asks for it: try at once, and pause again if need be
        try:
            worker.work(job_ids, max_jobs, self.paused)
        finally:
            artifacts.sweep()  # a child that was killed leaves its draft
        self._look_again()

    def _waiting(self, max_jobs: int | None) -> int:
        """How many jobs wait in the queue, or how many of them are asked for."""
        counts = self.manifest.jobs.counts()
        waiting = sum(counts[state] for state in CLAIMABLE)
        return waiting if max_jobs is None else min(waiting, max_jobs)

    def interrupted(self) -> None:
        """What is told of an interrupted batch is what the manifest says, if it can be asked."""
        with contextlib.suppress(EnvironmentalError):
            self._look_again()

    def _look_again(self) -> None:
        """What others did meanwhile to jobs that were asked for here."""
        unfinished = [path for path, outcome in self._outcomes.items() if outcome.status in UNFINISHED]
        known = {Path(job.subject): job for job in self.manifest.jobs.summaries_at(unfinished)}
        for path in unfinished:
            before = self._outcomes[path]
            if path not in known:
                self._outcomes[path] = replace(before, status="removed", note="its job was cleared meanwhile")
            elif str(known[path].status) != before.status:
                self._outcomes[path] = self._explained(self._unless_superseded(of_job(path, known[path])))
        self._note_copies()

    def _note_copies(self) -> None:
        """The same recording at several paths has one montage, called after the path that was known first."""
        copies = self.manifest.videos.copies()
        for path, outcome in self._outcomes.items():
            first, *others = copies.get(outcome.key or "", [path])
            if path in others:
                self._outcomes[path] = replace(outcome, copy_of=first)

    def stopped_by(self, error: EnvironmentalError) -> None:
        """The work could not go on for a reason that is nobody's job's."""
        self._stopped_by = error

    def paused(self) -> list[Breaker]:
        """The pauses that keep work of this batch waiting right now."""
        if self._stopped_by is not None:
            return [Breaker(EVERYTHING, self._stopped_by.code, message=str(self._stopped_by))]
        now = datetime.now(UTC)
        return [
            breaker for breaker in self.manifest.breakers.all() if breaker.is_open(now) and self._waits_for(breaker)
        ]

    def _waits_for(self, breaker: Breaker) -> bool:
        if not self._libraries:
            return True
        codes = {outcome.error_code for outcome in self._outcomes.values() if outcome.status in UNFINISHED}
        return any(breaker.blocks(library, code) for library in self._libraries for code in {None, *codes})

    def _end(self, outcome: Outcome) -> None:
        self._outcomes[outcome.path] = self._explained(outcome)
        self._watcher.ended(self._outcomes[outcome.path])

    def _unless_superseded(self, outcome: Outcome) -> Outcome:
        """A later command may have asked for this video otherwise: then what was made is its success, not ours."""
        if outcome.status != State.SUCCEEDED or outcome.options is None or not self._libraries:
            return outcome
        changes = JobOptions.from_json(outcome.options).changes_from(self._options)
        if not changes:
            return outcome
        note = f"made as a later command asked: {', '.join(changes)}; to make it as here, run this command again"
        return replace(outcome, status=SUPERSEDED, note=note)

    def _explained(self, outcome: Outcome) -> Outcome:
        """With why it was to run, which only the plan knows."""
        planned = self._outcomes.get(outcome.path)
        return outcome if planned is None else replace(outcome, reasons=planned.reasons, why=planned.why)


class OutcomeRecorder:
    """Keeps every outcome, and passes it on."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def expect(self, number: int, sizes: Mapping[Path, int] | None = None) -> None:
        self._batch._watcher.expect(number, sizes)

    def started(self, outcome: Outcome) -> None:
        self._batch._watcher.started(self._batch._explained(outcome))

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None:
        self._batch._watcher.progressed(outcome, stage, fraction)

    def ended(self, outcome: Outcome) -> None:
        self._batch._end(self._batch._unless_superseded(outcome))
