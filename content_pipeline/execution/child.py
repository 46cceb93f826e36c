"""What a child does with its assignment: prepare, execute its run or its job, and say how it went."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from content_pipeline.errors import PipelineError, named
from content_pipeline.execution.assignment import Assignment
from content_pipeline.execution.job_kinds import JobKindHandler, handler_of
from content_pipeline.execution.job_kinds.handler import Prepared
from content_pipeline.execution.messages import Message, Outdated, RunStarted, RunStatus, StageRecalled, WorkEnded
from content_pipeline.execution.names import job_tag
from content_pipeline.execution.reporter import PipeReporter
from content_pipeline.execution.run_context import RunContext, executing
from content_pipeline.execution.runs import RunBackend, RunHandle
from content_pipeline.execution.stage_context import open_stage_context
from content_pipeline.failpoints import failpoint
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_in_a_child
from content_pipeline.settings import Settings
from content_pipeline.settings.job_options import forced_stages


class RunOutdated(Exception):
    """A run that no longer fits its job. Nobody's fault: the job gets another one."""


def child_main(assignment: Assignment, settings: Settings, runs: RunBackend, send: Callable[[Message], None]) -> None:
    """Nothing that goes wrong here goes unsaid: only a process that dies is a crash."""
    reporter = PipeReporter(send)
    try:
        child = _Child(assignment, settings, runs, open_in_a_child(settings), reporter)
        if assignment.job is None:
            child.execute_run_without_job()
        else:
            child.execute_job(assignment.job, handler_of(assignment.job.kind))
    except RunOutdated as reason:
        reporter.send(Outdated(str(reason)))
        if assignment.run_id is not None:
            runs.end_as_cancelled(assignment.run_id, f"Nothing was done: {reason}. The job waits for its next run.")
    except Exception as error:  # noqa: BLE001 - the boundary of a worker
        traceback.print_exc()
        known = named(error)
        reporter.failed(assignment.first_stage, known)
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

    def execute_run_without_job(self) -> None:
        """Dagster's records say how it went."""
        with closing(self._launched_run()) as run:
            self.reporter.send(RunStarted(run.run_id))
            status = self._execute(run)
        self.reporter.send(WorkEnded(status))

    def execute_job(self, job: Job, handler: JobKindHandler) -> None:
        prepared = handler.prepare(job, self.settings, self.manifest, self.reporter)
        if self.assignment.run_id is None and not handler.needs_run:
            status = self._execute_here(job, handler)
        else:
            status = self._execute_in_run(job, handler, prepared)
        failpoint("run_ended")
        ended = WorkEnded(status, output_stats=self.reporter.output_stats)
        self.reporter.send(handler.end(ended, job, self.manifest))

    def _execute_here(self, job: Job, handler: JobKindHandler) -> RunStatus:
        self.reporter.progressed(handler.stages[0], 0.0)
        run_context = self._run_context()
        with executing(run_context):
            handler.execute(open_stage_context(self.settings, run_context), job, self.manifest)
        return RunStatus.SUCCEEDED

    def _execute_in_run(self, job: Job, handler: JobKindHandler, prepared: Prepared) -> RunStatus:
        with closing(self._run(job, handler, prepared)) as run:
            if run.status is RunStatus.UNFINISHED:  # else it was terminated while it waited
                self._announce(job, run, prepared)
            status = self._execute(run)
        if status is RunStatus.FAILED and not self.reporter.reported_failure:
            raise RuntimeError(f"Dagster ended the run {run.run_id} as failed outside of a stage")
        return status

    def _execute(self, run: RunHandle) -> RunStatus:
        return run.execute(self._run_context()) if run.status is RunStatus.UNFINISHED else run.status

    def _run(self, job: Job, handler: JobKindHandler, prepared: Prepared) -> RunHandle:
        if self.assignment.run_id is None:
            tag = job_tag(job.job_id, job.claim_count)
            return self.runs.create(handler.dagster_job, handler.partitions, prepared.partition_key, tag)
        run = self._launched_run()
        if run.partition_key != prepared.partition_key:
            run.close()
            raise RunOutdated(f"{prepared.title}, not {run.partition_key}")
        return run

    def _launched_run(self) -> RunHandle:
        assert self.assignment.run_id is not None, "an assignment is a job, a run, or both"
        run = self.runs.find(self.assignment.run_id)
        if run is None:
            raise RunOutdated(f"the run {self.assignment.run_id} was deleted")
        return run

    def _announce(self, job: Job, run: RunHandle, prepared: Prepared) -> None:
        self.reporter.send(RunStarted(run.run_id))
        self.manifest.jobs.report_run(job.lease, run.run_id, prepared.video_key)
        failpoint("run_created")
        for stage, key in run.finished_stages().items():
            self.reporter.send(StageRecalled(stage, key))

    def _run_context(self) -> RunContext:
        job = self.assignment.job
        if job is None:
            return RunContext(self.reporter, cores=self.assignment.cores)
        return RunContext(self.reporter, job.force_id, forced_stages(job.options), self.assignment.cores, job.lease)
