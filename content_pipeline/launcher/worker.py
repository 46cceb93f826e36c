"""A worker: claims jobs, gives each to a child, keeps its leases alive, and commits what came of them.

The loop never blocks for long, so that a worker that is stopped or cut off loses its leases, and one that
lives keeps them. Everything it writes about a job passes the manifest's fence.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from content_pipeline.errors import DatabaseAway, RetryPolicy, WorkerCrashed, printable
from content_pipeline.failpoints import reached
from content_pipeline.launcher.delivery import deliver
from content_pipeline.launcher.embedded import EmbeddedRuns
from content_pipeline.launcher.outcome import Outcome, Watcher
from content_pipeline.library.plan import Recipe
from content_pipeline.manifest.breaker import Breaker
from content_pipeline.manifest.lifecycle import CLAIMABLE, Move, State
from content_pipeline.manifest.model import Job, QueueType, Result
from content_pipeline.manifest.moves import LostLease
from content_pipeline.manifest.opening import open_manifest
from content_pipeline.manifest.steering import Which
from content_pipeline.manifest.store import Manifest
from content_pipeline.settings import Settings
from content_pipeline.workers.identity import this_worker
from content_pipeline.workers.pool import Ended, Pool, Said, Task
from content_pipeline.workers.warm import warm

Answer = TypeVar("Answer")

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
    stats: dict[str, Any] = field(default_factory=dict)
    progress: dict[str, Any] | None = None


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
        self._waiting: list[str] | None = None
        self._beaten_s = time.monotonic()

    def work(
        self, job_ids: Iterable[str] | None, max_jobs: int | None, paused: Callable[[], Sequence[Breaker]]
    ) -> None:
        """Until every named job (or every job there is) has ended, is another worker's, or waits for a pause."""
        self._waiting = None if job_ids is None else list(job_ids)
        left = max_jobs
        if self._waiting is None or len(self._waiting) > 1:
            warm(HEAVY)
        try:
            while True:
                left = self._fill(left)
                if not self._held and (left == 0 or not self._has_more() or paused()):
                    return
                for event in self._pool.listen():
                    self._hear(event)
                self._keep_alive()
        except BaseException:
            self._let_go()
            raise

    # --- taking work

    def _fill(self, left: int | None) -> int | None:
        while self._pool.has_room and left != 0:
            claimed = self._claim()
            if claimed is None:
                return left
            reached("claimed")
            self._start(claimed)
            left = None if left is None else left - 1
        return left

    def _claim(self) -> Job | None:
        """The next job that is due; of named ones, a window at a time."""
        recipe = self._recipe.config_hash
        if self._waiting is None:
            return next(iter(self._patiently(lambda: self._manifest.claim(self._id, config_hash=recipe))), None)
        for start in range(0, len(self._waiting), CLAIM_FROM):
            window = self._waiting[start : start + CLAIM_FROM]
            claim = partial(self._manifest.claim, self._id, job_ids=window, config_hash=recipe)
            if claimed := self._patiently(claim):
                self._waiting.remove(claimed[0].job_id)
                return claimed[0]
        return None

    def _has_more(self) -> bool:
        """Whether jobs are left that can still be claimed, now or after their back-off."""
        if self._waiting is None:
            counts = self._manifest.counts()[QueueType.PROCESSING]
            return any(counts[state] for state in CLAIMABLE)
        unfinished = [job for job in self._manifest.list(Which(job_ids=self._waiting)) if job.status in CLAIMABLE]
        self._waiting = [job.job_id for job in unfinished]
        return bool(unfinished)

    def _start(self, job: Job) -> None:
        path = Path(job.video_path)
        if not self._held:
            self._beaten_s = time.monotonic()  # its lease is fresh
        held = self._held[job.job_id] = _Held(job, Outcome(path, job.video_key, "running"))
        self._watcher.started(held.outcome)
        settings, runs, force, cores = self._settings, self._runs, self._force, self._cores()

        def run(send: Any) -> None:
            deliver(job, settings, runs, open_manifest(settings), force, cores, send)

        self._pool.start(Task(job.job_id, run, runs.log_path(f"{job.job_id}-{job.claim_count}")))

    def _cores(self) -> int:
        """How many cores a child may use: all of them for the last video of a batch."""
        slots = self._settings.worker_count
        at_work = slots if self._waiting is None else min(slots, len(self._held) + len(self._waiting))
        return max(1, slots // max(1, at_work))

    # --- hearing of it

    def _hear(self, event: Said | Ended) -> None:
        held = self._held[event.task.name]
        if isinstance(event, Ended):
            self._close(held, event)
            del self._held[event.task.name]
        elif event.value["is"] == "progress":
            held.progress = {"stage": event.value["stage"], "fraction": round(event.value["fraction"], 2)}
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
        if outcome.status == State.PENDING and self._waiting is not None:
            self._waiting.append(held.job.job_id)  # it comes back after its back-off
        self._watcher.ended(outcome)

    def _commit(self, held: _Held, event: Ended) -> Outcome:
        lease, outcome = held.job.lease, held.outcome
        if held.lost:
            raise LostLease(f"the lease on {printable(outcome.path)} was lost while it was worked on")
        if held.cancelled:
            self._patiently(lambda: self._manifest.stop_cancelled(lease))
            return replace(outcome, status="cancelled")
        if held.succeeded:
            reached("before_commit")
            result = _result(held, self._recipe.config_hash)
            self._patiently(lambda: self._manifest.succeed(lease, result))
            reached("committed")
            return replace(outcome, status="succeeded")
        if held.failure is not None:
            return self._fail(held, held.failure)
        return self._crashed(held, event.crash if event.crash is not None else "ended without a word", event.task)

    def _fail(self, held: _Held, failure: dict[str, Any]) -> Outcome:
        code, message, policy = failure["code"], failure["message"], RetryPolicy(failure["policy"])
        decision = self._patiently(
            lambda: self._manifest.fail(held.job.lease, code, message, policy, failure["stage"], held.cost)
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

    def _crashed(self, held: _Held, how: str, task: Task) -> Outcome:
        if held.run_id is not None:
            self._runs.child_died(held.run_id, how)
        error = WorkerCrashed(f"{printable(held.outcome.path)}: the worker was {how}; see {task.log_path}")
        self._patiently(lambda: self._manifest.crashed(held.job.lease, str(error)))
        status = self._manifest.get(held.job.job_id).status
        return replace(held.outcome, status=str(status), error_code=error.code, error=str(error), hint=error.hint)

    # --- staying alive, and letting go

    def _keep_alive(self) -> None:
        """Renew all leases; a worker that cannot reach the manifest for long stops, for others will take over."""
        if not self._held or time.monotonic() - self._beaten_s < self._settings.queue.heartbeat_s:
            return
        leases = [held.job.lease for held in self._held.values()]
        renewal = self._patiently(lambda: self._manifest.renew(self._id, leases))
        self._beaten_s = time.monotonic()
        for job_id in renewal.lost & set(self._held):
            self._lose(job_id)
        for job_id in renewal.cancelled & set(self._held):
            self._cancel(self._held[job_id])
        for held in self._held.values():
            if held.progress is not None and not held.lost:
                with contextlib.suppress(LostLease):  # the next heartbeat hears of it, and stops the child
                    self._manifest.report_progress(held.job.lease, held.progress)
                held.progress = None

    def _patiently(self, call: Callable[[], Answer]) -> Answer:
        """Ask the manifest again while it is away, but not for so long that others may have taken over."""
        since_s = self._beaten_s if self._held else time.monotonic()
        while True:
            try:
                return call()
            except DatabaseAway:
                if time.monotonic() - since_s > self._settings.queue.give_up_s:
                    for job_id in self._held:
                        self._lose(job_id)
                    raise
                time.sleep(0.5)

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
        """Give back what is not done, at no cost; what is done is committed. Not to be interrupted again.

        Each step is tried whatever became of the others: what cannot be given back now is rescued later.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for held in self._held.values():
            if held.run_id is not None and not held.succeeded:
                self._at_least_try(partial(self._runs.announce_cancel, held.run_id))
        for event in self._pool.stop():
            if isinstance(event, Said) or self._held[event.task.name].succeeded:
                self._at_least_try(partial(self._hear, event))
        for held in self._held.values():
            self._watcher.ended(replace(held.outcome, status="cancelled"))
        self._at_least_try(self._release_all)

    def _release_all(self) -> None:
        """Asked of the manifest, not of `_held`: an interruption may have come right after a claim."""
        for job in self._manifest.list(Which(status=State.RUNNING)):
            if job.worker_id == self._id:
                with contextlib.suppress(LostLease):  # someone else has it already
                    self._manifest.release(job.lease, "the worker was asked to stop")

    def _at_least_try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the original reason to stop must not be lost behind this one
            logging.getLogger(__name__).warning("while stopping: %s", error)


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
            held.stats = message["stats"]
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
        results={"facts": shown, "output_stats": held.stats},
        cost=held.cost,
    )
