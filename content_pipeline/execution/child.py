"""What a child does with one errand: tell which video it is, look for room, run it, and say how it went."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from content_pipeline.errors import LibraryOffline, MissingFile, PipelineError, named, printable
from content_pipeline.execution.names import job_tag
from content_pipeline.execution.reporter import PipeReporter
from content_pipeline.execution.run_context import RunContext
from content_pipeline.execution.runs import RunBackend, RunHandle, RunStatus
from content_pipeline.failpoints import reached
from content_pipeline.library.identify import identify
from content_pipeline.library.space import check_space
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_in_a_child
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.settings import Settings
from content_pipeline.settings.job_options import settings_for

Send = Callable[[Any], None]


class Outdated(Exception):
    """A run that no longer fits its job. Nobody's fault: the job gets another one."""


@dataclass(frozen=True)
class Assignment:
    """A job that was claimed, or a run that Dagster launched, or both."""

    job: Job | None
    run_id: str | None = None
    cores: int = 1


def child_main(errand: Assignment, settings: Settings, runs: RunBackend, send: Send) -> None:
    """Nothing that goes wrong here goes unsaid: only a process that dies is a crash."""
    sender = PipeReporter(send)
    try:
        manifest = open_in_a_child(settings)
        _ChildRun(errand, settings, runs, manifest, sender, send).carry_out()
    except Outdated as reason:
        send({"is": "outdated", "why": str(reason)})
        if errand.run_id is not None:
            runs.end_as_cancelled(errand.run_id, f"Nothing was done: {reason}. The job waits for its next run.")
    except Exception as error:  # noqa: BLE001 - the boundary of a worker
        traceback.print_exc()
        known = named(error)
        sender.failed("fingerprint", known)
        if errand.run_id is not None:
            hint = known.hint if isinstance(known, PipelineError) else ""
            runs.end_as_failed(errand.run_id, f"{known} {hint}".strip())


@dataclass(frozen=True)
class _ChildRun:
    errand: Assignment
    settings: Settings
    runs: RunBackend
    manifest: Manifest
    sender: PipeReporter
    send: Send

    def carry_out(self) -> None:
        video = None if self.errand.job is None else self._prepare(self.errand.job)
        with closing(self._run(video)) as run:
            status = run.status
            if status is RunStatus.UNFINISHED:  # else it was terminated while it waited
                self._announce(run, video)
                self._recall_finished_stages(run)
                status = run.execute(self._context())
        reached("run_ended")
        if status is RunStatus.FAILED and not self.sender.reported_failure and video is not None:
            raise RuntimeError(f"Dagster ended the run {run.run_id} as failed outside of a stage")
        self.send({"is": "ended", "run_status": status.value, **self._content(video)})

    def _prepare(self, job: Job) -> KnownVideo:
        settings_for(job.options, self.settings)  # what cannot be understood is refused before anything is done
        video = _identify(job, self.manifest, self.sender.alive)
        reached("identified")
        check_space(video.size_bytes, self.settings)
        self.send({"is": "identified", "key": video.key, "bytes": video.size_bytes})
        return video

    def _run(self, video: KnownVideo | None) -> RunHandle:
        job = self.errand.job
        if self.errand.run_id is None:
            assert job is not None and video is not None, "an errand is a job, a run, or both"
            return self.runs.create(video.key, job_tag(job.job_id, job.claim_count))
        run = self.runs.find(self.errand.run_id)
        if run is None:
            raise Outdated(f"the run {self.errand.run_id} was deleted")
        if video is not None and run.partition_key != video.key:
            run.close()
            raise Outdated(f"{printable(video.path)} is the video {video.key}, not {run.partition_key}")
        return run

    def _announce(self, run: RunHandle, video: KnownVideo | None) -> None:
        self.send({"is": "run", "run_id": run.run_id})
        if self.errand.job is not None and video is not None:
            self.manifest.jobs.report_run(self.errand.job.lease, run.run_id, video.key)
        reached("run_created")

    def _recall_finished_stages(self, run: RunHandle) -> None:
        """Of a run that goes on: the stages that another process finished, in its records."""
        for stage, key in run.finished_stages().items():
            self.send({"is": "recalled", "stage": stage, "key": key})

    def _context(self) -> RunContext:
        job = self.errand.job
        if job is None:
            return RunContext(self.sender, cores=self.errand.cores)
        return RunContext(self.sender, job.force_id, self.errand.cores, job.lease)

    def _content(self, video: KnownVideo | None) -> dict[str, Any]:
        content = None if video is None else self.manifest.videos.at(video.path)
        return {
            "quick": None if content is None else content.quick,
            "full": None if content is None else content.full,
            "stats": self.sender.output_stats,
        }


def _identify(job: Job, manifest: Manifest, alive: Callable[[], None]) -> KnownVideo:
    path, root = Path(job.subject), Path(job.library)
    try:
        return identify(path, root, manifest.videos, alive)
    except MissingFile as error:
        if not root.is_dir():
            raise LibraryOffline(f"{printable(root)} does not exist") from error
        raise


def log_path(settings: Settings, name: str) -> Path:
    """What a child prints, kept apart from Dagster's own records."""
    return settings.state_dir.absolute() / "logs" / f"{name}.log"
