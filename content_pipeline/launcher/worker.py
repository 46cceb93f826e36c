"""A worker: claims jobs, gives each to a child, keeps its leases alive, and commits what came of them.

The loop never blocks for long, so that a worker that is stopped or cut off loses its leases, and one that
lives keeps them. Everything it writes about a job passes the manifest's fence.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from content_pipeline.errors import RetryPolicy, WorkerCrashed, printable
from content_pipeline.failpoints import reached
from content_pipeline.launcher.delivery import deliver
from content_pipeline.launcher.embedded import EmbeddedRuns
from content_pipeline.launcher.outcome import Outcome, Watcher
from content_pipeline.library.plan import Recipe
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.lifecycle import CLAIMABLE, Move, State
from content_pipeline.manifest.model import Job, Result
from content_pipeline.manifest.moves import LostLease
from content_pipeline.manifest.steering import Which
from content_pipeline.manifest.store import Manifest
from content_pipeline.settings import Settings
from content_pipeline.workers.identity import this_worker
from content_pipeline.workers.pool import Ended, Pool, Said, Task
from content_pipeline.workers.warm import warm

CLAIM_FROM = 100
HEAVY = (
    "av",
    "blake3",
    "scipy.fft",
    "soxr",
    "content_pipeline.media.energy",
    "content_pipeline.media.parts",
    "content_pipeline.media.detectors.broadband",
    "content_pipeline.media.preview",
)


@dataclass
class _Held:
    """A job in a child's hands, and what has been heard of it."""

    job: Job
    outcome: Outcome
    started_s: float = field(default_factory=time.monotonic)
    run_id: str | None = None
    input_bytes: int = 0
    quick: str | None = None
    full: str | None = None
    succeeded: bool = False
    lost: bool = False
    cancelled: bool = False
    failure: dict[str, Any] | None = None
    stage_keys: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)


class Worker:
    def __init__(
        self, settings: Settings, manifest: Manifest, runs: EmbeddedRuns, recipe: Recipe, watcher: Watcher, force: bool
    ) -> None:
        self._settings = settings
        self._manifest = manifest
        self._runs = runs
        self._recipe = recipe
        self._watcher = watcher
        self._force = force
        self._id = this_worker()
        self._pool = Pool(settings.worker_count)
        self._held: dict[str, _Held] = {}
        self._beaten_s = time.monotonic()

    def work(self, job_ids: Iterable[str] | None = None, max_jobs: int | None = None) -> None:
        """Until every named job (or every job there is) has ended, waits for another worker, or is paused."""
        waiting = None if job_ids is None else list(job_ids)
        left = max_jobs
        if waiting is None or len(waiting) > 1:
            warm(HEAVY)
        try:
            while True:
                left = self._fill(waiting, left)
                if not self._held and not self._should_wait(waiting, left):
                    return
                for event in self._pool.listen():
                    self._hear(event)
                self._keep_alive()
        except BaseException:
            self._let_go()
            raise

    # --- taking work

    def _fill(self, waiting: list[str] | None, left: int | None) -> int | None:
        while self._pool.has_room and left != 0:
            claimed = self._claim(waiting)
            if claimed is None:
                return left
            reached("claimed")
            self._start(claimed)
            left = None if left is None else left - 1
        return left

    def _claim(self, waiting: list[str] | None) -> Job | None:
        """The next job that is due; of named ones, a window at a time."""
        if waiting is None:
            return next(iter(self._manifest.claim(self._id, config_hash=self._recipe.config_hash)), None)
        for start in range(0, len(waiting), CLAIM_FROM):
            window = waiting[start : start + CLAIM_FROM]
            claimed = self._manifest.claim(self._id, job_ids=window, config_hash=self._recipe.config_hash)
            if claimed:
                waiting.remove(claimed[0].job_id)
                return claimed[0]
        return None

    def _should_wait(self, waiting: list[str] | None, left: int | None) -> bool:
        """Jobs that come back after a back-off are waited for; those of a pause, or of other workers, are not."""
        if left == 0:
            return False
        if waiting is None:
            counts = self._manifest.counts()
            due = sum(states[state] for states in counts.values() for state in CLAIMABLE)
        else:
            unfinished = [job for job in self._manifest.list(Which(job_ids=waiting)) if job.status in CLAIMABLE]
            waiting[:] = [job.job_id for job in unfinished]
            due = len(unfinished)
        return due > 0 and not any(breaker.until is not None for breaker in self._manifest.breakers())

    def _start(self, job: Job) -> None:
        path = Path(job.video_path)
        held = self._held[job.job_id] = _Held(job, Outcome(path, job.video_key, "running"))
        self._watcher.started(held.outcome)
        settings, runs, force = self._settings, self._runs, self._force

        def run(send: Any) -> None:
            manifest = Manifest(open_engine(settings.manifest_url), lease_s=settings.queue.lease_s)
            deliver(job, settings, runs, manifest, force, send)

        self._pool.start(Task(job.job_id, run, runs.log_path(f"{job.job_id}-{job.claim_count}")))

    # --- hearing of it

    def _hear(self, event: Said | Ended) -> None:
        held = self._held[event.task.name]
        if isinstance(event, Ended):
            del self._held[event.task.name]
            self._close(held, event)
        elif event.value["is"] == "progress":
            self._watcher.progressed(held.outcome, event.value["stage"], event.value["fraction"])
        else:
            _note(held, event.value)
            if event.value["is"] == "finished":
                self._watcher.progressed(held.outcome, event.value["stage"], 1.0)

    def _close(self, held: _Held, event: Ended) -> None:
        """The child has ended: commit what it did."""
        held.outcome = replace(held.outcome, seconds=round(time.monotonic() - held.started_s, 3))
        try:
            outcome = self._commit(held, event)
        except LostLease as error:
            outcome = replace(held.outcome, status="lost", error_code=error.code, error=str(error), hint=error.hint)
        self._watcher.ended(outcome)

    def _commit(self, held: _Held, event: Ended) -> Outcome:
        lease, outcome = held.job.lease, held.outcome
        if held.lost:
            raise LostLease(f"the lease on {printable(outcome.path)} was lost while it was worked on")
        if held.cancelled:
            self._manifest.stop_cancelled(lease)
            return replace(outcome, status="cancelled")
        if held.succeeded:
            reached("before_commit")
            self._manifest.succeed(lease, _result(held, self._recipe.config_hash))
            reached("committed")
            return replace(outcome, status="succeeded")
        if held.failure is not None:
            return self._fail(held, held.failure)
        return self._crashed(held, event)

    def _fail(self, held: _Held, failure: dict[str, Any]) -> Outcome:
        policy = RetryPolicy(failure["policy"])
        decision = self._manifest.fail(
            held.job.lease, failure["code"], failure["message"], policy, failure["stage"], held.cost
        )
        status = "failed" if decision.move is Move.FAIL else "pending"
        return replace(
            held.outcome,
            status=status,
            error_code=failure["code"],
            error=failure["message"],
            hint=failure["hint"],
            note="" if status == "failed" else decision.reason,
        )

    def _crashed(self, held: _Held, event: Ended) -> Outcome:
        how = event.crash if event.crash is not None else "ended without a result"
        if held.run_id is not None:
            self._runs.child_died(held.run_id, how)
        name = printable(held.outcome.path)
        error = WorkerCrashed(f"{name}: the worker was {how}; see {event.task.log_path}")
        self._manifest.crashed(held.job.lease, str(error))
        status = self._manifest.get(held.job.job_id).status
        return replace(held.outcome, status=str(status), error_code=error.code, error=str(error), hint=error.hint)

    # --- staying alive, and letting go

    def _keep_alive(self) -> None:
        """Renew all leases; a worker that cannot reach the manifest for long stops, for others will take over."""
        since_s = time.monotonic() - self._beaten_s
        if not self._held or since_s < self._settings.queue.heartbeat_s:
            return
        try:
            renewal = self._manifest.renew(self._id, [held.job.lease for held in self._held.values()])
        except sa.exc.OperationalError:
            if since_s < self._settings.queue.give_up_s:
                return
            for job_id in self._held:
                self._lose(job_id)
            raise
        self._beaten_s = time.monotonic()
        for job_id in renewal.lost & set(self._held):
            self._lose(job_id)
        for job_id in renewal.cancelled & set(self._held):
            self._cancel(self._held[job_id])

    def _cancel(self, held: _Held) -> None:
        if not held.cancelled:
            held.cancelled = True
            if held.run_id is not None:
                self._runs.announce_cancel(held.run_id)
            self._pool.signal(held.job.job_id, signal.SIGTERM)

    def _lose(self, job_id: str) -> None:
        self._held[job_id].lost = True
        self._pool.signal(job_id, signal.SIGKILL)

    def _let_go(self) -> None:
        """Give back what is not done, at no cost; what is done is committed."""
        for held in self._held.values():
            if held.run_id is not None and not held.succeeded:
                self._runs.announce_cancel(held.run_id)
        for event in self._pool.stop():
            if isinstance(event, Said) or self._held[event.task.name].succeeded:
                self._hear(event)
        for held in self._held.values():
            self._watcher.ended(replace(held.outcome, status="cancelled"))
        # Asked of the manifest, not of `_held`: the interruption may have come right after a claim.
        for job in self._manifest.list(Which(status=State.RUNNING)):
            if job.worker_id == self._id:
                self._manifest.release(job.lease, "the worker was asked to stop")


def _note(held: _Held, message: dict[str, Any]) -> None:
    match message["is"]:
        case "identified":
            held.outcome = replace(held.outcome, key=message["key"])
            held.input_bytes = message["bytes"]
        case "run":
            held.run_id = message["run_id"]
        case "finished":
            _note_stage(held, message)
        case "failed":
            held.failure = message
        case "ended":
            held.quick, held.full = message["quick"], message["full"]
            held.succeeded = message["run_status"] == "SUCCESS" and held.failure is None


def _note_stage(held: _Held, message: dict[str, Any]) -> None:
    how = "reused" if message["reused"] else "computed"
    held.outcome = replace(
        held.outcome,
        stages={**held.outcome.stages, message["stage"]: how},
        outputs=tuple(message["outputs"]),
        facts={**held.outcome.facts, **message["facts"]},
    )
    held.stage_keys[message["stage"]] = message["key"]
    held.hashes = message["outputs"]
    held.cost[message["stage"]] = {**message["cost"], "bytes": held.input_bytes}


def _result(held: _Held, config_hash: str) -> Result:
    stats = {path: Path(path).stat() for path in held.hashes}
    shown = {name: held.outcome.facts.get(name) for name in ("highlights", "events", "clips", "montage_s", "track")}
    return Result(
        video_key=held.outcome.key,
        input_hash_quick=held.quick,
        input_hash_full=held.full,
        input_size=held.input_bytes,
        config_hash=config_hash,
        stage_keys=held.stage_keys,
        output_files=list(held.hashes),
        output_hashes=held.hashes,
        results={
            "facts": shown,
            "output_stats": {path: [status.st_size, status.st_mtime_ns] for path, status in stats.items()},
        },
        cost=held.cost,
    )
