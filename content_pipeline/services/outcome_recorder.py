"""What became of each recording that a call asked for, as it ends; passed on to whoever watches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from content_pipeline.execution.outcome import Outcome, Watcher, of_job
from content_pipeline.library.plan import PlannedVideo
from content_pipeline.library.presence import is_there
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobSummary
from content_pipeline.settings.job_options import JobOptions

SUPERSEDED = "superseded"
UNFINISHED = ("pending", "dirty", "running", "lost")


class OutcomeRecorder:
    """`asked`: what this call asked for; None when it works on jobs of other calls."""

    def __init__(self, manifest: Manifest, watcher: Watcher) -> None:
        self._manifest = manifest
        self._watcher = watcher
        self._outcomes: dict[Path, Outcome] = {}
        self.asked: JobOptions | None = None

    @property
    def outcomes(self) -> Sequence[Outcome]:
        return [self._outcomes[path] for path in sorted(self._outcomes)]

    @property
    def unfinished_errors(self) -> set[str | None]:
        """What the last attempts of the videos that still wait ended with."""
        return {outcome.error_code for outcome in self._outcomes.values() if outcome.status in UNFINISHED}

    # --- what a worker says

    def expect(self, number: int, sizes: Mapping[Path, int] | None = None) -> None:
        self._watcher.expect(number, sizes)

    def started(self, outcome: Outcome) -> None:
        self._watcher.started(self._explained(outcome))

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None:
        self._watcher.progressed(outcome, stage, fraction)

    def ended(self, outcome: Outcome) -> None:
        recorded = self._explained(self._unless_superseded(outcome))
        self._outcomes[outcome.path] = recorded
        self._watcher.ended(recorded)

    # --- what the plan and the manifest say

    def keep(self, outcome: Outcome) -> None:
        """Without telling whoever watches: there may be 10,000 that are up to date."""
        self._outcomes[outcome.path] = outcome

    def plan(self, jobs: Iterable[JobSummary], videos: Iterable[PlannedVideo]) -> None:
        """The jobs that are to be worked on, and why."""
        by_path = {video.found.path: video for video in videos}
        for job in jobs:
            path = Path(job.subject)
            outcome = self._unless_superseded(of_job(path, job))
            self._outcomes[path] = replace(outcome, reasons=by_path[path].reasons, why=by_path[path].why)
        self._note_copies()

    def look_again(self) -> None:
        """What others did meanwhile to jobs that were asked for here."""
        unfinished = [path for path, outcome in self._outcomes.items() if outcome.status in UNFINISHED]
        known = {Path(job.subject): job for job in self._manifest.jobs.summaries_at(unfinished)}
        for path in unfinished:
            before = self._outcomes[path]
            if path not in known:
                self._outcomes[path] = replace(before, status="removed", note="its job was cleared meanwhile")
            elif str(known[path].status) != before.status:
                self._outcomes[path] = self._explained(self._unless_superseded(of_job(path, known[path])))
        self._note_copies()

    def _note_copies(self) -> None:
        """The same recording at several paths has one montage, called after the path that was known first."""
        copies = self._manifest.videos.copies()
        for path, outcome in self._outcomes.items():
            first, *others = copies.get(outcome.key or "", [path])
            if path in others and is_there(first):
                self._outcomes[path] = replace(outcome, copy_of=first)

    def _unless_superseded(self, outcome: Outcome) -> Outcome:
        """A later command may have asked for this video otherwise: then what was made is its success, not ours."""
        if outcome.status != State.SUCCEEDED or outcome.options is None or self.asked is None:
            return outcome
        changes = JobOptions.from_json(outcome.options).changes_from(self.asked)
        if not changes:
            return outcome
        note = f"made as a later command asked: {', '.join(changes)}; to make it as here, run this command again"
        return replace(outcome, status=SUPERSEDED, note=note)

    def _explained(self, outcome: Outcome) -> Outcome:
        """With why it was to run, which only the plan knows."""
        planned = self._outcomes.get(outcome.path)
        return outcome if planned is None else replace(outcome, reasons=planned.reasons, why=planned.why)
