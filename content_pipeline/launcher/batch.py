"""Bring a folder of recordings up to date: plan, enqueue, work, and tell what became of each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import EnvironmentalError, LibraryOffline, printable
from content_pipeline.failpoints import reached
from content_pipeline.launcher.outcome import Outcome, Watcher, of_job, refused
from content_pipeline.library.plan import Action, Known, LibraryPlan, Recipe, plan
from content_pipeline.library.scan import Found, Scan, look_again
from content_pipeline.library.settle import is_settled
from content_pipeline.manifest.breaker import Breaker
from content_pipeline.manifest.breakers import EVERYTHING, LIBRARY, STAGE
from content_pipeline.manifest.catalog import Catalog, Rename
from content_pipeline.manifest.model import Request
from content_pipeline.manifest.opening import open_manifest
from content_pipeline.manifest.steering import Which
from content_pipeline.settings import Settings, Stage
from content_pipeline.stages.workbench import VERSIONS
from content_pipeline.workers.identity import gone_among

if TYPE_CHECKING:
    from content_pipeline.launcher.embedded import BuildJob

SETTLE_LOOKS = 3
UNSETTLED = "unsettled"
UNFINISHED = ("pending", "dirty", "running", "lost")


def recipe_of(settings: Settings) -> Recipe:
    stages: tuple[Stage, ...] = ("fingerprint", "energy", "detections", "clip", "montage")
    return Recipe({stage: settings.read_by(stage) for stage in stages}, {stage: VERSIONS[stage] for stage in stages})


class Batch:
    """`outcomes` grows as videos end; it holds everything that is known when the batch is interrupted."""

    def __init__(self, settings: Settings, watcher: Watcher, force: bool = False) -> None:
        self._settings = settings
        self._watcher = watcher
        self._force = force
        self.manifest = open_manifest(settings)
        self._catalog = Catalog(self.manifest.engine)
        self._recipe = recipe_of(settings)
        self._outcomes: dict[Path, Outcome] = {}
        self._libraries: set[str] = set()
        self._stopped_by: EnvironmentalError | None = None

    @property
    def outcomes(self) -> Sequence[Outcome]:
        return [self._outcomes[path] for path in sorted(self._outcomes)]

    def plan(self, scan: Scan) -> LibraryPlan:
        """What would be done, and why. Changes nothing."""
        return self._plan(scan, self._known(scan))

    def _plan(self, scan: Scan, known: Known) -> LibraryPlan:
        return plan(scan, known, self._recipe, self._settings.output_dir.absolute(), self._force)

    def recent_costs(self) -> list[dict[str, Any]]:
        return self._catalog.recent_costs()

    def _known(self, scan: Scan) -> Known:
        known = Known(
            signatures=self._catalog.signatures_under(scan.root),
            jobs={job.video_path: job for job in self._catalog.jobs_under(scan.root)},
            recipes={digest: Recipe.from_json(values) for digest, values in self._catalog.recipes().items()},
        )
        if known.signatures and not scan.recordings and not any(scan.root.iterdir()):
            raise LibraryOffline(
                f"{printable(scan.root)} is empty, but {len(known.signatures)} videos are known there: is it mounted?"
            )
        return known

    def enqueue(self, scan: Scan) -> list[str]:
        """Write the plan into the manifest. Returns the jobs to be worked on, and notes what needs no work."""
        self.manifest.rescue(gone_among(self.manifest.workers()))
        known = self._known(scan)
        settled, unsettled = self._settle(scan, known)
        self._libraries.add(str(scan.root))
        reached("scanned")
        planned = self._plan(replace(scan, recordings=settled), known)
        reached("planned")
        self._note_idle(scan, planned, unsettled)
        self._write(planned)
        reached("enqueued")
        paths = [video.found.path for video in planned.to_run]
        jobs = self._catalog.jobs_at(paths)
        for job in jobs:
            self._outcomes[Path(job.video_path)] = of_job(Path(job.video_path), job)
        return [job.job_id for job in jobs]

    def _settle(self, scan: Scan, known: Known) -> tuple[tuple[Found, ...], list[Found]]:
        """What changed just now is looked at again; what still changes is left alone. What is known is whole."""
        same = [found for found in scan.recordings if known.signatures.get(str(found.path)) == str(found.signature)]
        moving = sorted(set(scan.recordings) - set(same))
        settled: list[Found] = []
        for look in range(SETTLE_LOOKS):
            if look and moving:
                time.sleep(self._settings.library.settle_s)
                moving = [again for found in moving if (again := look_again(found)) is not None]
            now_ns = time.time_ns()
            whole = {found for found in moving if self._is_settled(found, now_ns)}
            settled += whole
            moving = [found for found in moving if found not in whole]
        return tuple(sorted([*same, *settled])), moving

    def _is_settled(self, found: Found, now_ns: int) -> bool:
        return is_settled(found.path, found.signature.mtime_ns, now_ns, self._settings.library.settle_s)

    def _note_idle(self, scan: Scan, planned: LibraryPlan, unsettled: list[Found]) -> None:
        for one in scan.refused:
            self._end(refused(one.path, one.error))
        for found in unsettled:
            self._end(Outcome(found.path, status=UNSETTLED, note="still being written; left alone for now"))
        for video in planned.videos:
            if video.job is not None and not video.will_run:
                outcome = of_job(video.found.path, video.job, video.note)
                if video.action is Action.KEEP:
                    self._outcomes[outcome.path] = outcome  # nothing to tell of each of 10,000
                else:
                    self._end(outcome)

    def _write(self, planned: LibraryPlan) -> None:
        self._catalog.remember_recipe(self._recipe.config_hash, self._recipe.as_json())
        if planned.renamed:
            self._catalog.rename(
                Rename(Path(one.before), one.found.path, planned.root, str(one.found.signature))
                for one in planned.renamed
            )
        back = self._catalog.offline_under(planned.root) - set(planned.gone)
        self._catalog.set_offline([Path(path) for path in back if Path(path).exists()], False)
        self._catalog.set_offline([Path(path) for path in planned.gone], True)
        new = [video.found for video in planned.videos if video.action is Action.CREATE]
        if new:
            self.manifest.enqueue([self._request(found, planned.root) for found in new])
        for (action, reason), ids in _by_reason(planned).items():
            which = Which(job_ids=ids, if_possible=True)  # another command may have been first
            self.manifest.spoil(which, reason) if action is Action.REDO else self.manifest.retry(which, reason)

    def _request(self, found: Found, root: Path) -> Request:
        queue = self._settings.queue
        return Request(
            video_path=str(found.path),
            library=str(root),
            max_attempts=queue.max_attempts,
            max_crashes=queue.max_crashes,
            input_size=found.signature.size_bytes,
        )

    def work(self, build_job: BuildJob, job_ids: Sequence[str] | None, max_jobs: int | None = None) -> None:
        """Rescue what others left behind, then work until nothing is left to do here."""
        if job_ids is None:
            self.manifest.rescue(gone_among(self.manifest.workers()))
        if job_ids is not None and not job_ids:
            return  # and Dagster was never loaded
        from content_pipeline.launcher.embedded import EmbeddedRuns
        from content_pipeline.launcher.worker import Worker

        runs = EmbeddedRuns(self._settings, build_job)
        runs.close_abandoned()
        artifacts = ArtifactStore(self._settings.state_dir.absolute() / "artifacts")
        artifacts.sweep()
        worker = Worker(self._settings, self.manifest, runs, self._recipe, _Collector(self), self._force)
        self.manifest.close_breakers()  # a person asks for it: try at once, and pause again if need be
        try:
            worker.work(job_ids, max_jobs, self.paused)
        finally:
            artifacts.sweep()  # a child that was killed leaves its draft
        self._look_again()

    def _look_again(self) -> None:
        """What others did meanwhile to jobs that were asked for here."""
        unfinished = [path for path, outcome in self._outcomes.items() if outcome.status in UNFINISHED]
        known = {Path(job.video_path): job for job in self._catalog.jobs_at(unfinished)}
        for path in unfinished:
            before = self._outcomes[path]
            if path not in known:
                self._outcomes[path] = replace(before, status="removed", note="its job was cleared meanwhile")
            elif str(known[path].status) != before.status:
                self._outcomes[path] = of_job(path, known[path])

    def stopped_by(self, error: EnvironmentalError) -> None:
        """The work could not go on for a reason that is nobody's job's."""
        self._stopped_by = error

    def paused(self) -> list[Breaker]:
        """The pauses that keep work of this batch waiting right now."""
        if self._stopped_by is not None:
            return [Breaker(EVERYTHING, self._stopped_by.code, message=str(self._stopped_by))]
        now = datetime.now(UTC)
        ours = {EVERYTHING, *(f"{LIBRARY}{library}" for library in self._libraries)}
        return [
            breaker
            for breaker in self.manifest.breakers()
            if breaker.is_open(now)
            and (breaker.scope in ours or breaker.scope.startswith(STAGE) or not self._libraries)
        ]

    def _end(self, outcome: Outcome) -> None:
        self._outcomes[outcome.path] = outcome
        self._watcher.ended(outcome)


class _Collector:
    """Keeps every outcome, and passes it on."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def started(self, outcome: Outcome) -> None:
        self._batch._watcher.started(outcome)

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None:
        self._batch._watcher.progressed(outcome, stage, fraction)

    def ended(self, outcome: Outcome) -> None:
        self._batch._end(outcome)


def _by_reason(planned: LibraryPlan) -> dict[tuple[Action, str], list[str]]:
    groups: dict[tuple[Action, str], list[str]] = {}
    for video in planned.videos:
        if video.action in (Action.REDO, Action.RETRY) and video.job is not None:
            reason = "; ".join(dict.fromkeys(f"{stage}: {why}" for stage, why in video.reasons.items()))
            groups.setdefault((video.action, reason), []).append(video.job.job_id)
    return groups
