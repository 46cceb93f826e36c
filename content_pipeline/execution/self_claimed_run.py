"""A run that claims its job by itself, because no worker of ours executes it: under any launcher and executor.

Dagster's own launchers (a process, a container, a pod for each run), `dagster job execute`, `dg.materialize`: what
a worker does for its children is done here inside the run. It claims, renews the lease while it works, and commits.

Under a multiprocess executor each step is a process of its own. The first claims; the others find the job under their
run's id and go on with the same lease; the last one that was asked for commits. The first that fails, fails the job. A
run that dies is brought back by its lease, like any worker.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import LostLease, PipelineError, named
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.admission import Admission, Admitted, NotYet, UnderWay
from content_pipeline.execution.assignment import Assignment, log_path
from content_pipeline.execution.commit import commit, decide
from content_pipeline.execution.heartbeat import Heartbeat
from content_pipeline.execution.job_kinds import JobKindHandler, handler_of
from content_pipeline.execution.job_kinds.handler import Refused, is_whole
from content_pipeline.execution.job_settings import settings_of
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.messages import (
    Alive,
    Message,
    Outdated,
    Progress,
    RunStatus,
    StageRecalled,
    WorkEnded,
)
from content_pipeline.execution.names import job_tag
from content_pipeline.execution.reporter import PipeReporter
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.execution.run_context import RunContext
from content_pipeline.execution.worker_identity import worker_of_run
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_in_a_child, open_manifest
from content_pipeline.settings import Settings
from content_pipeline.settings.job_options import forced_stages

LOOK_EVERY_S = 0.2


class RunRecord(Protocol):
    """What is asked of Dagster about the run that is executed here."""

    def finished_stages(self) -> Mapping[str, str]:
        """The stages that this run has recorded, in whichever process, and their keys."""

    def is_terminated(self) -> bool:
        """Whether a person asked for its end."""

    def claims(self, owner: str, job_tag: str) -> None:
        """Write down which attempt of which job it works on: others leave it alone, and see when it is lost."""


@dataclass(frozen=True)
class ClaimedRun:
    """The conditions of this run, and the settings that its job is made with."""

    run_context: RunContext
    settings: Settings


class JobStopped(Exception):
    """A person asked in the manifest for the end of a job that is worked on here."""


@contextmanager
def claim_in_run(launch: Launch, settings: Settings, record: RunRecord) -> Iterator[ClaimedRun]:
    """Claim the job that a run is about, or go on with it, for as long as the block lasts; then say how it went.

    What cannot be done is refused, not raised: the run's first step says so, where people look.
    """
    manifest = open_in_a_child(settings)
    try:
        rescue_orphans(manifest)
        decision = Admission(manifest, worker_of_run(launch.run_id), settings, _hash_with(settings)).admit(launch)
    except PipelineError as error:
        decision = Refused(f"{error} {error.hint}")
    match decision:
        case Admitted(None):
            yield ClaimedRun(RunContext(), settings)
        case Admitted(Job() as job) | UnderWay(job):
            yield from _claimed(SelfClaimedRun(job, launch, settings_of(job, settings), manifest, record))
        case Refused(why) | NotYet(why):
            yield ClaimedRun(RunContext(refusal=f"Nothing was done: {why}."), settings)


def _hash_with(settings: Settings) -> Callable[[Job], str | None]:
    return lambda job: handler_of(job.kind).config_hash(settings_of(job, settings))


def _claimed(run: SelfClaimedRun) -> Iterator[ClaimedRun]:
    with run.keeping_its_lease():
        refusal = run.prepare()
        yield ClaimedRun(run.run_context(refusal), run.settings)
    run.end()


class SelfClaimedRun:
    """One process of it: a step, or the whole run."""

    def __init__(self, job: Job, launch: Launch, settings: Settings, manifest: Manifest, record: RunRecord) -> None:
        self.settings = settings
        self._job = job
        self._launch = launch
        self._manifest = manifest
        self._record = record
        self._handler: JobKindHandler = handler_of(job.kind)
        self._active = ActiveJob.of(
            Assignment(
                name=launch.run_id,
                subject=Path(job.subject),
                job=job,
                run_id=launch.run_id,
                partition_key=launch.partition_key,
                whole=is_whole(self._handler, launch),
            )
        )
        self._reporter = PipeReporter(self._receive)

    def run_context(self, refusal: str | None) -> RunContext:
        return RunContext(
            self._reporter,
            self._job.force_id,
            forced_stages(self._job.options),
            lease=self._job.lease,
            refusal=refusal,
        )

    def _receive(self, message: Message) -> None:
        """What the stages say. They get on by saying it: here they learn that they are to stop."""
        if isinstance(message, Progress | Alive):
            if self._active.lease_lost:
                raise LostLease(f"the lease on job {self._job.job_id} was lost while it was worked on")
            if self._active.is_stopped:
                raise JobStopped(f"a person cancelled the job {self._job.job_id}")
        self._active.receive(message)

    # --- before the work

    def prepare(self) -> str | None:
        """What a child does before its run: which video is it, and can it be done? Says what is in the way."""
        job, launch = self._job, self._launch
        try:
            self._record.claims(str(job.worker_id), job_tag(job.job_id, job.claim_count))
            prepared = self._handler.prepare(job, self.settings, self._manifest, self._reporter)
            if prepared.partition_key != launch.partition_key:
                why = f"{prepared.title}, not {launch.partition_key}"
                self._active.receive(Outdated(why))
                return f"Nothing was done: {why}. The job waits for its next run."
            self._manifest.jobs.report_run(job.lease, launch.run_id, prepared.video_key)
        except Exception as error:  # noqa: BLE001 - the boundary of a worker
            traceback.print_exc()
            known = named(error)
            self._reporter.failed(self._handler.stages[0], known)
            return f"{known} {known.hint if isinstance(known, PipelineError) else ''}".strip()
        return None

    # --- while it works

    @contextmanager
    def keeping_its_lease(self) -> Iterator[None]:
        ended = threading.Event()
        keeper = threading.Thread(target=self._keep_lease, args=(ended,), name="content-ai lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()

    def _keep_lease(self, ended: threading.Event) -> None:
        """In a thread with connections of its own. A manifest that is away for too long counts as a lost lease."""
        queue = self.settings.queue
        try:
            manifest = open_manifest(self.settings, retry_s=queue.give_up_s)
            heartbeat = Heartbeat(manifest, str(self._job.worker_id), queue.heartbeat_s)
            while not ended.wait(LOOK_EVERY_S):
                renewal = heartbeat.beat([self._active])
                if self._job.job_id in renewal.lost:
                    self._active.lease_lost = True
                elif self._job.job_id in renewal.cancelled:
                    self._active.stop_by_s = time.monotonic()
        except Exception:
            logging.getLogger(__name__).exception("the lease of job %s cannot be renewed", self._job.job_id)
            self._active.lease_lost = True

    # --- after it

    def end(self) -> None:
        """Commit what is over; what other steps go on with keeps its lease, as fresh as it can be."""
        if not self._is_over():
            self._manifest.jobs.renew(str(self._job.worker_id), [self._job.lease])
            return
        self._recall_other_steps()
        if self._last_stage in self._active.report.finished:
            ended = WorkEnded(RunStatus.SUCCEEDED, output_stats=self._reporter.output_stats)
            self._active.receive(self._handler.end(ended, self._job, self._manifest))
        try:
            decision = decide(self._active, self._job, crash=None)
            commit(self._active, self._job, decision, self._manifest, log_path(self.settings, self._active.name))
        except LostLease as error:
            logging.getLogger(__name__).warning("%s %s", error, error.hint)

    def _is_over(self) -> bool:
        """Whether nothing of the job is left to the steps after this one."""
        active, report = self._active, self._active.report
        if report.failure is not None or report.outdated is not None or active.lease_lost or active.is_stopped:
            return True
        if self._last_stage in report.finished:
            return True
        if not self._was_interrupted():
            return False
        if self._record.is_terminated():
            active.stop_by_s = time.monotonic()
        else:
            active.receive(Outdated(f"its run was interrupted in or after {report.stage}"))
        return True

    def _was_interrupted(self) -> bool:
        """In a stage, or between two: Dagster closes its resources while what interrupted the run is on its way up."""
        report = self._active.report
        began_and_did_not_end = report.fraction is not None and report.stage not in report.finished
        return began_and_did_not_end or sys.exception() is not None

    @cached_property
    def _last_stage(self) -> str:
        """Of those that the run was asked for."""
        asked = [stage for stage in self._handler.stages if stage in self._launch.assets]
        return (asked if asked else self._handler.stages)[-1]

    def _recall_other_steps(self) -> None:
        """What other processes of this run have made: they have told Dagster, and the artifacts say the rest."""
        artifacts = ArtifactStore(self.settings.state_dir.absolute() / "artifacts")
        recorded = self._record.finished_stages()
        for stage in self._handler.stages:
            key = recorded.get(stage)
            if key is not None and stage not in self._active.report.finished:
                artifact = artifacts.find(stage, key)
                self._active.receive(StageRecalled(stage, key, {} if artifact is None else dict(artifact.facts)))
