"""What becomes of a job when its child has ended: decided from what is known, then written under the job's lease."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from content_pipeline.errors import LostLease, WorkerCrashed, printable
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.job_kinds import handler_of
from content_pipeline.execution.messages import Failure
from content_pipeline.execution.outcome import Outcome
from content_pipeline.failpoints import failpoint
from content_pipeline.manifest.lifecycle import Move, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job, JobFailure


@dataclass(frozen=True)
class Succeed:
    """Everything was made, and is where it belongs."""


@dataclass(frozen=True)
class Release:
    """The job is given back as it was: the attempt costs nothing."""

    reason: str


@dataclass(frozen=True)
class Cancel:
    """A person wanted it stopped."""


@dataclass(frozen=True)
class Fail:
    failure: Failure


@dataclass(frozen=True)
class Crash:
    """The process died, or ended without a word."""

    how: str


@dataclass(frozen=True)
class Lose:
    """Another worker may own the job: nothing is written."""


Decision = Succeed | Release | Cancel | Fail | Crash | Lose


def decide(active: ActiveJob, job: Job, crash: str | None) -> Decision:
    """`crash` says how the process died, if it did not end by itself."""
    report = active.report
    if active.lease_lost:
        return Lose()
    if report.outdated is not None:
        return Release(report.outdated)
    if report.succeeded:
        made = ", ".join(report.stage_keys) or "nothing"
        complete = active.assignment.whole and handler_of(job.kind).is_complete(report)
        return Succeed() if complete else Release(f"a run of {made} ended")
    if active.is_stopped:
        return Cancel()
    failure = report.failure if report.failure is not None else active.stall
    return Crash("ended without a result" if crash is None else crash) if failure is None else Fail(failure)


def decide_without_job(active: ActiveJob, crash: str | None) -> Outcome:
    """Of a run that is about no job: Dagster's records say everything, unless its process died."""
    report = active.report
    if active.is_stopped:
        return active.outcome("cancelled")
    if report.status is not None:
        return active.outcome("succeeded" if report.succeeded else "failed")
    if active.stall is not None:
        return active.outcome("failed", active.stall)
    how = "ended without a result" if crash is None else crash
    return active.outcome("failed", Failure.of(WorkerCrashed(how), report.stage))


def commit(active: ActiveJob, job: Job, decision: Decision, manifest: Manifest, log: Path) -> Outcome:
    """Write a decision into the manifest, and say what came of it."""
    lease = job.lease
    match decision:
        case Lose():
            raise LostLease(f"the lease on {printable(active.assignment.subject)} was lost while it was worked on")
        case Release(reason):
            manifest.jobs.release(lease, reason)
            return active.outcome("pending", note=reason)
        case Succeed():
            failpoint("before_commit")
            succeeded = handler_of(job.kind).commit(active.report, job, manifest)
            failpoint("committed")
            return active.outcome("succeeded" if succeeded else "cancelled")
        case Cancel():
            manifest.jobs.stop_cancelled(lease)
            return active.outcome("cancelled")
        case Fail(failure):
            return _fail(active, job, failure, manifest)
        case Crash(how):
            failure = _crash_failure(active, how, log)
            manifest.jobs.crashed(lease, failure.message)
            return active.outcome(str(manifest.jobs.get(job.job_id).status), failure)


def lost(active: ActiveJob, error: LostLease) -> Outcome:
    return active.outcome("lost", Failure.of(error, active.report.stage))


def _fail(active: ActiveJob, job: Job, failure: Failure, manifest: Manifest) -> Outcome:
    written = JobFailure(failure.code, failure.message, failure.policy, failure.stage, active.report.cost)
    decision = manifest.jobs.fail(job.lease, written)
    if decision.move is Move.FAIL:
        return active.outcome(str(State.FAILED), failure)
    return active.outcome(str(State.PENDING), failure, note=decision.reason)


def _crash_failure(active: ActiveJob, how: str, log: Path) -> Failure:
    path = printable(active.assignment.subject)
    error = WorkerCrashed(
        f"{path}: the worker died ({how}); see its log {log}. "
        f"To reproduce: content-ai process --input {path} --workers 1"
    )
    return Failure.of(error, active.report.stage)
