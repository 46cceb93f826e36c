"""What is to be done in a folder: planned from what the manifest knows of it, and written into the manifest.

Of watched folders: what is new or edited, and at night what changed settings made out of date.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from content_pipeline.errors import LibraryOffline, PipelineError, counted, printable
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.failpoints import failpoint
from content_pipeline.library.plan import (
    BACK,
    INPUT_CHANGED,
    NEW,
    TIMES_CHANGED,
    Action,
    Known,
    LibraryPlan,
    PlannedVideo,
    Wanted,
    plan,
)
from content_pipeline.library.presence import is_there
from content_pipeline.library.recipe import Recipe, calibrated_recipe, recipe_of
from content_pipeline.library.scan import Found, Scan, is_settled, known_and_changed, scan, wait_until_settled
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobRequest, JobSummary, JobTerms
from content_pipeline.manifest.videos import Rename
from content_pipeline.publishing.publish import recover_outputs
from content_pipeline.services.recordings import output_ownership
from content_pipeline.services.watch_document import WatchDocument, WatchedFolder
from content_pipeline.settings import Settings
from content_pipeline.settings.job_options import JobOptions


def command_terms(settings: Settings, force: bool = False) -> JobTerms:
    """A command's jobs keep its settings; `force` names a request that nothing older be reused."""
    force_id = new_ulid() if force else None
    return JobTerms(JobOptions.of(settings).as_json(), force_id, requires=settings.queue.requires)


@dataclass(frozen=True)
class Enqueued:
    """What was written: the jobs that are to be worked on, and what was left alone."""

    planned: LibraryPlan
    jobs: Sequence[JobSummary]
    unsettled: Sequence[Found]
    changed_outputs: Sequence[Path] = ()


def watch(settings: Settings, manifest: Manifest, seen: Mapping[str, str]) -> WatchDocument:
    """Enqueue what is new or edited in the watched folders. `seen` is `moving` of the last look."""
    planner = Planner(settings, manifest)
    ownership_of = output_ownership(settings, manifest)
    folders: list[WatchedFolder] = []
    moving: dict[str, str] = {}
    for folder in settings.library.folders:
        try:
            done = planner.enqueue_new_or_edited(scan(folder, settings.library, ownership_of), seen)
        except PipelineError as error:
            folders.append(_failed(folder, error))
            continue
        moving |= {str(found.path): str(found.signature) for found in done.unsettled}
        folders.append(_watched(folder, done))
    return WatchDocument(folders=tuple(folders), moving=moving)


def backfill(settings: Settings, manifest: Manifest, priority: int) -> Sequence[WatchedFolder]:
    """Enqueue everything in the watched folders that is out of date, with a priority of its own.

    What waits already with a lower one, such as for the night, gets this one.
    """
    planner = Planner(settings, manifest, JobTerms(priority=priority, requires=settings.queue.requires))
    ownership_of = output_ownership(settings, manifest)
    folders: list[WatchedFolder] = []
    for folder in settings.library.folders:
        try:
            done = planner.enqueue(scan(folder, settings.library, ownership_of))
            manifest.jobs.raise_priority([job.job_id for job in done.jobs], priority)
            folders.append(_watched(folder, done))
        except PipelineError as error:
            folders.append(_failed(folder, error))
    return folders


class Planner:
    """`terms`: what the jobs that it writes are to be done with; by default the settings as they are when they run."""

    def __init__(
        self,
        settings: Settings,
        manifest: Manifest,
        terms: JobTerms | None = None,
    ) -> None:
        self._settings = settings
        self._terms = JobTerms(requires=settings.queue.requires) if terms is None else terms
        self.manifest = manifest
        self.recipe = recipe_of(settings)
        self._recipes = {self.recipe.config_hash: self.recipe}  # all that a plan compared with

    def plan(self, scan: Scan, most: int | None = None) -> LibraryPlan:
        """What would be done, and why: the first `most` that need work, or all. Changes nothing."""
        return self._plan(scan, self._known(scan)).limited(most)

    def enqueue(self, scan: Scan, most: int | None = None) -> Enqueued:
        """Write the plan of a whole folder into the manifest; what changed just now is waited for."""
        rescue_orphans(self.manifest)
        recover_outputs(self.manifest.publications, [self._settings.output_dir])
        known = self._known(scan)
        same, changed = known_and_changed(scan, known.signatures)  # what is known is whole
        settled, unsettled = wait_until_settled(changed, self._settings.library.settle_s)
        failpoint("scanned")
        planned = self._plan(replace(scan, recordings=tuple(sorted([*same, *settled]))), known).limited(most)
        failpoint("planned")
        self._write(planned)
        failpoint("enqueued")
        return Enqueued(planned, self._jobs_of(planned), unsettled, scan.changed_outputs)

    def enqueue_new_or_edited(self, scan: Scan, seen: Mapping[str, str]) -> Enqueued:
        """Write what is new or edited in a folder, without waiting.

        `seen` holds the signatures of the last look: a file must have been the same then, too. What only the
        settings or an output ask for is left to a plan that a person or the night asked for.
        """
        signatures = self._signatures(scan)
        same, changed = known_and_changed(scan, signatures)
        now_ns, quiet_s = time.time_ns(), self._settings.library.settle_s
        whole = [
            found
            for found in changed
            if seen.get(str(found.path)) == str(found.signature)
            and is_settled(found.path, found.signature.mtime_ns, now_ns, quiet_s)
        ]
        unsettled = [found for found in changed if found not in set(whole)]
        if not whole and not self._has_come_or_gone(scan, signatures):
            return Enqueued(LibraryPlan(scan.root, (), (), ()), (), unsettled, scan.changed_outputs)
        known = self._known(scan)
        planned = self._plan(replace(scan, recordings=tuple(sorted([*same, *whole]))), known)
        news = replace(planned, videos=tuple(video for video in planned.videos if _is_news(video)))
        self._write(news)
        return Enqueued(news, self._jobs_of(news), unsettled, scan.changed_outputs)

    def _plan(self, scan: Scan, known: Known) -> LibraryPlan:
        terms = self._terms
        options = None if terms.options is None else JobOptions.from_json(terms.options)
        folder = str(self._settings.output_dir.absolute())
        return plan(scan, known, Wanted(self.recipe, folder, options, terms.force_id is not None))

    def _known(self, scan: Scan) -> Known:
        return Known(
            signatures=self._signatures(scan),
            jobs={job.subject: job for job in self.manifest.jobs.summaries_under(scan.root)},
            recipes={digest: Recipe.from_json(values) for digest, values in self.manifest.recipes.all().items()},
            calibrated=self._calibrated(),
        )

    def _calibrated(self) -> dict[str, Recipe]:
        """Of every video that follows a calibration, its recipe: as many as there are calibrations, not videos."""
        followed = self.manifest.calibrations.of_videos()
        recipes = {one: calibrated_recipe(self._settings, one) for one in set(followed.values())}
        for recipe in recipes.values():
            self._recipes[recipe.config_hash] = recipe
        return {key: recipes[applied] for key, applied in followed.items()}

    def _signatures(self, scan: Scan) -> dict[str, str]:
        self.manifest.roots.expect_mapped(scan.root)
        signatures = self.manifest.videos.signatures_under(scan.root)
        if signatures and not scan.recordings and not any(scan.root.iterdir()):
            raise LibraryOffline(
                f"{printable(scan.root)} is empty, but the manifest knows {counted(len(signatures), 'video')} there: "
                "is it mounted? Nothing was done. If the recordings were moved on purpose, process the folder where "
                "they are now."
            )
        return signatures

    def _has_come_or_gone(self, scan: Scan, signatures: Mapping[str, str]) -> bool:
        """Whether a known file is newly missing, or one that was missing is back."""
        there = {str(found.path) for found in scan.recordings}
        offline = self.manifest.videos.offline_under(scan.root)
        return bool(offline & there) or bool(signatures.keys() - there - offline)

    def _write(self, planned: LibraryPlan) -> None:
        for config_hash, recipe in self._recipes.items():
            self.manifest.recipes.remember(config_hash, recipe.as_json())
        if planned.renamed:
            self.manifest.videos.rename(
                Rename(Path(one.before), one.found.path, planned.root, str(one.found.signature))
                for one in planned.renamed
            )
        missing = [*planned.gone, *planned.offline]
        back = self.manifest.videos.offline_under(planned.root) - set(missing)
        self.manifest.videos.set_offline([Path(path) for path in back if is_there(Path(path))], False)
        self.manifest.videos.set_offline([Path(path) for path in missing], True)
        new = [video.found for video in planned.videos if video.action is Action.CREATE]
        if new and self.manifest.jobs.enqueue([self._request(found, planned.root) for found in new]) < len(new):
            taken = self.manifest.jobs.summaries_at([found.path for found in new])  # another command was first
            self.manifest.jobs.ask_again([job.job_id for job in taken if self._asks_otherwise(job)], NEW, self._terms)
        for reason, ids in self._by_reason(planned).items():
            self.manifest.jobs.ask_again(ids, reason, self._terms)

    def _by_reason(self, planned: LibraryPlan) -> dict[str, list[str]]:
        """The jobs that are to be done again, or on other terms than they were asked for before."""
        groups: dict[str, list[str]] = {}
        for video in planned.videos:
            again = video.action in (Action.REDO, Action.RETRY)
            if video.job is not None and (again or (video.action is Action.WAIT and self._asks_otherwise(video.job))):
                reason = "; ".join(dict.fromkeys(f"{stage}: {why}" for stage, why in video.reasons.items()))
                groups.setdefault(reason if again else video.why, []).append(video.job.job_id)
        return groups

    def _asks_otherwise(self, job: JobSummary) -> bool:
        return self._terms.options is not None and self._terms.differ_from(job)

    def _request(self, found: Found, root: Path) -> JobRequest:
        queue = self._settings.queue
        return JobRequest(
            subject=str(found.path),
            library=str(root),
            priority=self._terms.priority,
            max_attempts=queue.max_attempts,
            max_crashes=queue.max_crashes,
            input_size=found.signature.size_bytes,
            options=self._terms.options,
            force_id=self._terms.force_id,
            requires=self._terms.requires,
        )

    def _jobs_of(self, planned: LibraryPlan) -> Sequence[JobSummary]:
        return self.manifest.jobs.summaries_at([video.found.path for video in planned.to_run])


def _is_news(video: PlannedVideo) -> bool:
    if video.action is Action.CREATE:
        return True
    return video.action in (Action.REDO, Action.RETRY) and set(video.reasons.values()) in (
        {INPUT_CHANGED},
        {TIMES_CHANGED},
        {BACK},
    )


def _watched(folder: Path, done: Enqueued) -> WatchedFolder:
    return WatchedFolder(
        folder=str(folder),
        videos=len(done.planned.videos),
        enqueued=len(done.jobs),
        unsettled=len(done.unsettled),
        changed_outputs=tuple(str(path) for path in done.changed_outputs),
    )


def _failed(folder: Path, error: PipelineError) -> WatchedFolder:
    """One folder that is away does not keep the others waiting."""
    return WatchedFolder(folder=str(folder), error=str(error), hint=error.hint)
