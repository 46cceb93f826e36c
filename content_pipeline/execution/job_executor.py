"""Executes jobs in children, a few at a time: each is started, listened to, kept alive, and committed at its end.

`poll` never blocks for long, so that a worker that is stopped or cut off loses its leases, and one that lives keeps
them. Everything that is written about a job passes the manifest's fence.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from content_pipeline.errors import DatabaseAway, LostLease
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.assignment import Assignment
from content_pipeline.execution.child import child_main
from content_pipeline.execution.child_pool import Ended, Pool, Said, Task
from content_pipeline.execution.commit import commit, decide, decide_without_job, lost
from content_pipeline.execution.heartbeat import Heartbeat
from content_pipeline.execution.messages import Progress, StageFinished
from content_pipeline.execution.outcome import Outcome, Watcher
from content_pipeline.execution.runs import RunBackend
from content_pipeline.execution.watchdog import Watchdog, stall_failure
from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.execution.worker_registration import WORKER, WorkerRegistration
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.settings import Settings

Answer = TypeVar("Answer")
OnEnd = Callable[[ActiveJob, Outcome], None]

STOP_GRACE_S = 10.0


class JobExecutor:
    def __init__(
        self,
        settings: Settings,
        manifest: Manifest,
        runs: RunBackend,
        slots: int,
        watcher: Watcher,
        on_end: OnEnd,
        role: str = WORKER,
    ) -> None:
        self.id = this_worker()
        self._manifest = manifest
        self._runs = runs
        self._watcher = watcher
        self._on_end = on_end
        self._pool = Pool(slots)
        self._active: dict[str, ActiveJob] = {}
        self._ended: list[tuple[ActiveJob, Ended]] = []
        self._heartbeat = Heartbeat(manifest, self.id, settings.queue.heartbeat_s)
        self._registration = WorkerRegistration(manifest, self.id, role, slots, settings.queue)
        self._watchdog = Watchdog(settings.queue)

    @property
    def has_room(self) -> bool:
        return self._pool.has_room

    @property
    def active(self) -> Mapping[str, ActiveJob]:
        return dict(self._active)

    def start(self, assignment: Assignment, settings: Settings, runs: RunBackend, log: Path) -> int:
        """Give an assignment to a child; returns its pid."""
        if not self._active:
            self._heartbeat.restart()
        active = self._active[assignment.name] = ActiveJob.of(assignment)
        self._watcher.started(active.outcome("running"))

        def run(send: Any) -> None:
            child_main(assignment, settings, runs, send)

        return self._pool.start(Task(assignment.name, run, log))

    def poll(self) -> None:
        """Hear what children say, and keep what they work on."""
        for event in self._pool.listen():
            self._receive(event)
        self._close_ended()
        self._renew_leases()
        self.with_database_retry(self._registration.beat)
        self._kill_those_who_do_not_stop()
        self._end_stalled()

    # --- hearing of it

    def _receive(self, event: Said | Ended) -> None:
        active = self._active[event.task.name]
        if isinstance(event, Ended):
            self._ended.append((active, event))
            return
        active.receive(event.value)
        if isinstance(event.value, (Progress, StageFinished)):
            fraction = event.value.fraction if isinstance(event.value, Progress) else 1.0
            self._watcher.progressed(active.outcome("running"), event.value.stage, fraction)

    def _close_ended(self) -> None:
        """What cannot be committed now, because the disk is full or the manifest away, is tried again next time."""
        while self._ended:
            active, event = self._ended[0]
            if active.committed is None:
                active.committed = self._commit(active, event)
            self._on_end(active, active.committed)
            del self._ended[0], self._active[active.name]

    def _commit(self, active: ActiveJob, event: Ended) -> Outcome:
        job = active.assignment.job
        if job is None:
            return decide_without_job(active, event.crash)
        decision = decide(active, job, event.crash)
        try:
            return self.with_database_retry(lambda: commit(active, job, decision, self._manifest, event.task.log_path))
        except LostLease as error:
            return lost(active, error)

    # --- staying alive

    def _renew_leases(self) -> None:
        """A worker that cannot reach the manifest for long stops, for others will take over."""
        active = list(self._active.values())
        renewal = self.with_database_retry(lambda: self._heartbeat.beat(active))
        for one in active:
            if one.lease is not None and one.lease.job_id in renewal.lost:
                self._lose(one)
            elif one.lease is not None and one.lease.job_id in renewal.cancelled:
                self.stop(one)

    def with_database_retry(self, call: Callable[[], Answer]) -> Answer:
        """Ask the manifest, which waits while it is away; when it has been for too long, others may have taken over."""
        try:
            return call()
        except DatabaseAway:
            for active in self._active.values():
                self._lose(active)
            raise

    def _lose(self, active: ActiveJob) -> None:
        active.lease_lost = True
        self._pool.signal(active.name, signal.SIGKILL)

    def _end_stalled(self) -> None:
        running = [active for active in self._active.values() if active.name in self._pool.running]
        for active, limit_s in self._watchdog.stalled(running):
            where = "; ".join(map(str, self._pool.stacks(active.name)))
            active.stall = stall_failure(active, limit_s, where)
            self._pool.signal(active.name, signal.SIGKILL)

    # --- stopping

    def stop(self, active: ActiveJob) -> None:
        """Ask a child to end; it is made to, if it does not."""
        if active.stop_by_s is None:
            active.stop_by_s = time.monotonic() + STOP_GRACE_S
            if active.report.run_id is not None:
                self._runs.announce_cancel(active.report.run_id)
            self._pool.signal(active.name, signal.SIGTERM)

    def _kill_those_who_do_not_stop(self) -> None:
        now_s = time.monotonic()
        for active in self._active.values():
            if active.stop_by_s is not None and now_s > active.stop_by_s:
                self._pool.signal(active.name, signal.SIGKILL)

    def drain(self) -> Sequence[ActiveJob]:
        """Give back what is not done, at no cost; what is done is committed.

        Runs of our own end as cancelled. Launched ones stay as they are, for whoever comes next to go on with.
        Each step is tried whatever became of the others: what cannot be given back now is rescued later.
        """
        self._manifest.set_retry_time(0.0)  # who ends does not wait
        for active in self._active.values():
            if active.assignment.is_launched:
                self._pool.signal(active.name, signal.SIGKILL)
            elif active.report.run_id is not None and not active.report.succeeded:
                _log_errors(partial(self._runs.announce_cancel, active.report.run_id))
        for event in self._pool.stop():
            if isinstance(event, Said) or self._active[event.task.name].report.succeeded:
                _log_errors(partial(self._receive, event))
        _log_errors(self._close_ended)
        _log_errors(self._release_all)
        _log_errors(self._registration.end)
        return list(self._active.values())

    def end(self) -> None:
        """All is done, and nothing was given back. A row that stays behind does no harm."""
        _log_errors(self._registration.end)

    def _release_all(self) -> None:
        """Asked of the manifest, not of `_active`: an interruption may have come right after a claim."""
        for job in self._manifest.jobs.list(JobFilter(status=State.RUNNING)):
            if job.worker_id == self.id:
                with contextlib.suppress(LostLease):  # someone else has it already
                    self._manifest.jobs.release(job.lease, "the worker was asked to stop")


def _log_errors(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001 - the original reason to stop must not be lost behind this one
        logging.getLogger(__name__).warning("while stopping: %s", error)
