"""Errands in children's hands: each is started, heard of, kept alive, and committed when its child has ended.

`turn` never blocks for long, so that a worker that is stopped or cut off loses its leases, and one that lives
keeps them. Everything that is written about a job passes the manifest's fence.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from content_pipeline.errors import DatabaseAway, RetryPolicy, Stalled, WorkerCrashed, printable
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.child import Assignment, child_main
from content_pipeline.execution.child_pool import Ended, Pool, Said, Task
from content_pipeline.execution.outcome import Outcome, Watcher
from content_pipeline.execution.rescue import Moment
from content_pipeline.execution.runs import RunBackend
from content_pipeline.execution.watchdog import Turns, stall_limit_s
from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.failpoints import reached
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import Move, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job, JobFailure, Lease
from content_pipeline.manifest.transitions import LostLease
from content_pipeline.settings import Settings

Answer = TypeVar("Answer")
OnEnd = Callable[[ActiveJob, Outcome], None]

STOP_GRACE_S = 10.0


class JobExecutor:
    def __init__(
        self, settings: Settings, manifest: Manifest, runs: RunBackend, slots: int, watcher: Watcher, on_end: OnEnd
    ) -> None:
        self.id = this_worker()
        self._settings = settings
        self._manifest = manifest
        self._runs = runs
        self._watcher = watcher
        self._on_end = on_end
        self._pool = Pool(slots)
        self._held: dict[str, ActiveJob] = {}
        self._ended: list[tuple[ActiveJob, Ended]] = []
        self._beaten = Moment()
        self._turns = Turns()

    @property
    def has_room(self) -> bool:
        return self._pool.has_room

    @property
    def held(self) -> dict[str, ActiveJob]:
        return dict(self._held)

    def start(self, held: ActiveJob, errand: Assignment, settings: Settings, runs: RunBackend, log_path: Path) -> int:
        """Give an errand to a child; returns its pid."""
        if not self._held:
            self._beaten = Moment()  # its lease is fresh
        self._held[held.name] = held
        self._watcher.started(held.outcome)

        def run(send: Any) -> None:
            child_main(errand, settings, runs, send)

        return self._pool.start(Task(held.name, run, log_path))

    def turn(self) -> None:
        """Hear what children say, and keep what they hold."""
        for event in self._pool.listen():
            self._hear(event)
        self._close_ended()
        self._keep_alive()
        self._press_those_who_stop()
        self._end_those_who_stall()

    # --- hearing of it

    def _hear(self, event: Said | Ended) -> None:
        held = self._held[event.task.name]
        if isinstance(event, Ended):
            self._ended.append((held, event))
            return
        held.hear(event.value)
        if event.value["is"] in ("progress", "finished"):
            self._watcher.progressed(held.outcome, event.value["stage"], event.value.get("fraction", 1.0))

    def _close_ended(self) -> None:
        """What cannot be committed now, because the disk is full or the manifest away, is tried again next turn."""
        while self._ended:
            held, event = self._ended[0]
            self._close(held, event)
            del self._ended[0], self._held[held.name]

    def _close(self, held: ActiveJob, event: Ended) -> None:
        """The child has ended: commit what it did, once, and tell."""
        if held.committed is None:
            held.outcome = replace(held.outcome, seconds=round(time.monotonic() - held.started_s, 3))
            held.committed = self._committed(held, event)
        self._on_end(held, held.committed)

    def _committed(self, held: ActiveJob, event: Ended) -> Outcome:
        try:
            return self._commit_run(held, event) if held.job is None else self._commit(held, held.job, event)
        except LostLease as error:
            return replace(held.outcome, status="lost", error_code=error.code, error=str(error), hint=error.hint)

    def _commit(self, held: ActiveJob, job: Job, event: Ended) -> Outcome:
        lease, outcome = job.lease, held.outcome
        if held.lost:
            raise LostLease(f"the lease on {printable(outcome.path)} was lost while it was worked on")
        if held.outdated is not None:
            return self._release(held, lease, held.outdated)
        if held.succeeded:
            return self._succeed(held, lease)
        if held.stopped:
            self.with_database_retry(lambda: self._manifest.jobs.stop_cancelled(lease))
            return replace(outcome, status="cancelled")
        if held.failure is not None:
            return self._fail(held, lease, held.failure)
        if held.stalled is not None:
            return self._fail(held, lease, held.stalled)
        return self._crashed(held, job, event)

    def _commit_run(self, held: ActiveJob, event: Ended) -> Outcome:
        """A run without a job: Dagster's records say everything, unless its process died."""
        if held.stopped:
            return replace(held.outcome, status="cancelled")
        if held.run_status is not None:
            return replace(held.outcome, status="succeeded" if held.succeeded else "failed")
        if held.stalled is not None:
            return replace(held.outcome, status="failed", error_code=Stalled.code, error=held.stalled["message"])
        return replace(held.outcome, status="failed", error_code=WorkerCrashed.code, error=_how(event))

    def _succeed(self, held: ActiveJob, lease: Lease) -> Outcome:
        if not held.told_everything:
            return self._release(held, lease, f"a run of {', '.join(held.stage_keys) or 'nothing'} ended")
        reached("before_commit")
        result = held.result()
        self.with_database_retry(lambda: self._manifest.jobs.succeed(lease, result, held.job))
        reached("committed")
        return replace(held.outcome, status="succeeded")

    def _release(self, held: ActiveJob, lease: Lease, reason: str) -> Outcome:
        self.with_database_retry(lambda: self._manifest.jobs.release(lease, reason))
        return replace(held.outcome, status="pending", note=reason)

    def _fail(self, held: ActiveJob, lease: Lease, failure: dict[str, Any]) -> Outcome:
        code, message, policy = failure["code"], failure["message"], RetryPolicy(failure["policy"])
        decision = self.with_database_retry(
            lambda: self._manifest.jobs.fail(lease, JobFailure(code, message, policy, failure["stage"], held.cost))
        )
        failed = decision.move is Move.FAIL
        return replace(
            held.outcome,
            status=str(State.FAILED if failed else State.PENDING),
            error_code=code,
            error=message,
            hint=failure["hint"],
            note="" if failed else decision.reason,
        )

    def _crashed(self, held: ActiveJob, job: Job, event: Ended) -> Outcome:
        path = printable(held.outcome.path)
        error = WorkerCrashed(
            f"{path}: the worker died ({_how(event)}); see its log {event.task.log_path}. "
            f"To reproduce: content-ai process --input {path} --workers 1"
        )
        self.with_database_retry(lambda: self._manifest.jobs.crashed(job.lease, str(error)))
        status = self._manifest.jobs.get(job.job_id).status
        return replace(held.outcome, status=str(status), error_code=error.code, error=str(error), hint=error.hint)

    # --- staying alive

    def _keep_alive(self) -> None:
        """Renew all leases; a worker that cannot reach the manifest for long stops, for others will take over."""
        leases = [held.job.lease for held in self._held.values() if held.job is not None]
        if not leases or not self._beaten.is_past(self._settings.queue.heartbeat_s):
            return
        renewal = self.with_database_retry(lambda: self._manifest.jobs.renew(self.id, leases))
        self._beaten = Moment()
        for held in list(self._held.values()):
            if held.job is None:
                continue
            if held.job.job_id in renewal.lost:
                self._lose(held)
            elif held.job.job_id in renewal.cancelled:
                self.stop(held)
            if held.progress is not None and not held.lost:
                with contextlib.suppress(LostLease):  # the next heartbeat hears of it, and stops the child
                    self._manifest.jobs.report_progress(held.job.lease, held.progress)
                held.progress = None

    def with_database_retry(self, call: Callable[[], Answer]) -> Answer:
        """Ask the manifest, which waits while it is away; when it has been for too long, others may have taken over."""
        try:
            return call()
        except DatabaseAway:
            for held in self._held.values():
                self._lose(held)
            raise

    # --- stopping

    def stop(self, held: ActiveJob) -> None:
        """Ask a child to end; it is made to, if it does not."""
        if held.stop_by_s is None:
            held.stop_by_s = time.monotonic() + STOP_GRACE_S
            if held.run_id is not None:
                self._runs.announce_cancel(held.run_id)
            self._pool.signal(held.name, signal.SIGTERM)

    def _press_those_who_stop(self) -> None:
        now_s = time.monotonic()
        for held in self._held.values():
            if held.stop_by_s is not None and now_s > held.stop_by_s:
                self._pool.signal(held.name, signal.SIGKILL)

    def _end_those_who_stall(self) -> None:
        """A child that lives but does nothing would keep its lease for ever."""
        passed_s = self._turns.passed_s()
        for held in self._held.values():
            held.silent_s += passed_s
            limit_s = stall_limit_s(self._settings.queue, held.duration_s, held.size_bytes)
            is_ending = held.lost or held.stopped or held.stalled is not None or held.name not in self._pool.running
            if held.silent_s > limit_s and not is_ending:
                held.stalled = self._why_stalled(held, limit_s)
                self._pool.signal(held.name, signal.SIGKILL)

    def _why_stalled(self, held: ActiveJob, limit_s: float) -> dict[str, Any]:
        where = "; ".join(map(str, self._pool.stacks(held.name)))
        error = Stalled(
            f"{printable(held.outcome.path)}: no progress in {held.stage} for {limit_s:.0f} s (queue.stall_s); "
            f"it hung in {where}"
        )
        message = {"code": error.code, "message": str(error), "policy": error.policy.value, "hint": error.hint}
        return {**message, "stage": held.stage}

    def _lose(self, held: ActiveJob) -> None:
        held.lost = True
        self._pool.signal(held.name, signal.SIGKILL)

    def drain(self) -> Iterable[ActiveJob]:
        """Give back what is not done, at no cost; what is done is committed. Not to be interrupted again.

        Runs of our own end as cancelled. Launched ones stay as they are, for whoever comes next to go on with.
        Each step is tried whatever became of the others: what cannot be given back now is rescued later.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._manifest.set_retry_time(0.0)  # who ends does not wait
        for held in self._held.values():
            if held.launched:
                self._pool.signal(held.name, signal.SIGKILL)
            elif held.run_id is not None and not held.succeeded:
                _log_errors(partial(self._runs.announce_cancel, held.run_id))
        for event in self._pool.stop():
            if isinstance(event, Said) or self._held[event.task.name].succeeded:
                _log_errors(partial(self._hear, event))
        _log_errors(self._close_ended)
        _log_errors(self._release_all)
        return list(self._held.values())

    def _release_all(self) -> None:
        """Asked of the manifest, not of `_held`: an interruption may have come right after a claim."""
        for job in self._manifest.jobs.list(JobFilter(status=State.RUNNING)):
            if job.worker_id == self.id:
                with contextlib.suppress(LostLease):  # someone else has it already
                    self._manifest.jobs.release(job.lease, "the worker was asked to stop")


def _how(event: Ended) -> str:
    return event.crash if event.crash is not None else "ended without a result"


def _log_errors(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001 - the original reason to stop must not be lost behind this one
        logging.getLogger(__name__).warning("while stopping: %s", error)
