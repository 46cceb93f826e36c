"""What a child does with its assignment: tell which video it is, look for room, run it, and say how it went."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from content_pipeline.errors import LibraryOffline, MissingFile, PipelineError, named, printable
from content_pipeline.execution.assignment import Assignment
from content_pipeline.execution.messages import (
    Identified,
    Message,
    Outdated,
    RunStarted,
    RunStatus,
    StageRecalled,
    WorkEnded,
)
from content_pipeline.execution.names import job_tag
from content_pipeline.execution.reporter import PipeReporter
from content_pipeline.execution.run_context import RunContext
from content_pipeline.execution.runs import RunBackend, RunHandle
from content_pipeline.failpoints import reached
from content_pipeline.library.identify import identify
from content_pipeline.library.space import check_space
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_in_a_child
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.settings import Settings
from content_pipeline.settings.job_options import settings_for


class RunOutdated(Exception):
    """A run that no longer fits its job. Nobody's fault: the job gets another one."""


def child_main(assignment: Assignment, settings: Settings, runs: RunBackend, send: Callable[[Message], None]) -> None:
    """Nothing that goes wrong here goes unsaid: only a process that dies is a crash."""
    reporter = PipeReporter(send)
    try:
        manifest = open_in_a_child(settings)
        _Child(assignment, settings, runs, manifest, reporter).work()
    except RunOutdated as reason:
        reporter.send(Outdated(str(reason)))
        if assignment.run_id is not None:
            runs.end_as_cancelled(assignment.run_id, f"Nothing was done: {reason}. The job waits for its next run.")
    except Exception as error:  # noqa: BLE001 - the boundary of a worker
        traceback.print_exc()
        known = named(error)
        reporter.failed("fingerprint", known)
        if assignment.run_id is not None:
            hint = known.hint if isinstance(known, PipelineError) else ""
            runs.end_as_failed(assignment.run_id, f"{known} {hint}".strip())


@dataclass(frozen=True)
class _Child:
    assignment: Assignment
    settings: Settings
    runs: RunBackend
    manifest: Manifest
    reporter: PipeReporter

    def work(self) -> None:
        video = None if self.assignment.job is None else self._prepare(self.assignment.job)
        with closing(self._run(video)) as run:
            status = run.status
            if status is RunStatus.UNFINISHED:  # else it was terminated while it waited
                self._announce(run, video)
                status = run.execute(self._context())
        reached("run_ended")
        if status is RunStatus.FAILED and not self.reporter.reported_failure and video is not None:
            raise RuntimeError(f"Dagster ended the run {run.run_id} as failed outside of a stage")
        self.reporter.send(self._ended(status, video))

    def _prepare(self, job: Job) -> KnownVideo:
        settings_for(job.options, self.settings)  # what cannot be understood is refused before anything is done
        video = _identify(job, self.manifest, self.reporter.alive)
        reached("identified")
        check_space(video.size_bytes, self.settings)
        self.reporter.send(Identified(video.key, video.size_bytes))
        return video

    def _run(self, video: KnownVideo | None) -> RunHandle:
        job = self.assignment.job
        if self.assignment.run_id is None:
            assert job is not None and video is not None, "an assignment is a job, a run, or both"
            return self.runs.create(video.key, job_tag(job.job_id, job.claim_count))
        run = self.runs.find(self.assignment.run_id)
        if run is None:
            raise RunOutdated(f"the run {self.assignment.run_id} was deleted")
        if video is not None and run.partition_key != video.key:
            run.close()
            raise RunOutdated(f"{printable(video.path)} is the video {video.key}, not {run.partition_key}")
        return run

    def _announce(self, run: RunHandle, video: KnownVideo | None) -> None:
        self.reporter.send(RunStarted(run.run_id))
        if self.assignment.job is not None and video is not None:
            self.manifest.jobs.report_run(self.assignment.job.lease, run.run_id, video.key)
        reached("run_created")
        for stage, key in run.finished_stages().items():
            self.reporter.send(StageRecalled(stage, key))

    def _context(self) -> RunContext:
        job = self.assignment.job
        if job is None:
            return RunContext(self.reporter, cores=self.assignment.cores)
        return RunContext(self.reporter, job.force_id, self.assignment.cores, job.lease)

    def _ended(self, status: RunStatus, video: KnownVideo | None) -> WorkEnded:
        content = None if video is None else self.manifest.videos.at(video.path)
        if content is None:
            return WorkEnded(status, output_stats=self.reporter.output_stats)
        return WorkEnded(status, content.quick, content.full, self.reporter.output_stats)


def _identify(job: Job, manifest: Manifest, alive: Callable[[], None]) -> KnownVideo:
    path, root = Path(job.subject), Path(job.library)
    try:
        return identify(path, root, manifest.videos, alive)
    except MissingFile as error:
        if not root.is_dir():
            raise LibraryOffline(f"{printable(root)} does not exist") from error
        raise
