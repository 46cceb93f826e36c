"""The supervisor: takes in the runs that Dagster launches, and gives each to a child with everything loaded.

`python -m content_pipeline.launchers.local.supervisor` is a process of its own, silent, and gone when idle. The run
launcher starts it, with its own environment; people use `content-ai worker`.

It keeps nothing that is not in the launch queue, in Dagster's records or in the manifest: killed at any moment, it is
followed by another that goes on where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.dagster_runtime.instance import dagster_home, open_instance
from content_pipeline.dagster_runtime.runs import Compose, DagsterRuns
from content_pipeline.errors import BadSettings, EnvironmentalError, PipelineError, printable
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.admission import Admission, Admitted, Decision, NotYet, UnderWay
from content_pipeline.execution.assignment import Assignment, log_path
from content_pipeline.execution.job_executor import JobExecutor
from content_pipeline.execution.job_kinds import handler_of_launch
from content_pipeline.execution.job_kinds.handler import Refused, is_whole
from content_pipeline.execution.job_settings import JobSettings, settings_of
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.manifest_identity import database_of, manifest_identity
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.execution.outcome import NullWatcher, Outcome, Watcher
from content_pipeline.execution.rescue import Moment, rescue_orphans
from content_pipeline.execution.runs import MakeRuns
from content_pipeline.execution.warm_up import HEAVY, keep_shared, warm
from content_pipeline.launchers.abandoned_runs import adopt
from content_pipeline.launchers.launch_queue import LaunchQueue, has_work_for
from content_pipeline.launchers.local.folder_launch_queue import FolderLaunchQueue
from content_pipeline.launchers.local.run_launcher import IDLE_S, build, drain_supervisor, is_outdated
from content_pipeline.launchers.local.supervisor_lock import SupervisorInfo, SupervisorLock
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import Settings, load

DEFINITIONS = "content_pipeline.definitions"  # by name, as Dagster loads it: it is composed of what is above launchers
ELSEWHERE = "this very run is being executed by another process, which has the lease of its job"
ASK_AGAIN_S = 1.0
LOOK_FOR_TERMINATED_S = 5.0
HAND_OVER_S = 5.0
WARN_AGAIN_S = 3600.0


@dataclass(frozen=True)
class Ready:
    """A launch that was admitted: its job, and what it is made with."""

    job: Job | None
    settings: Settings


@dataclass
class _Waiting:
    launch: Launch
    not_before_s: float = 0.0
    why: str | None = None  # as its run was last told


class Supervisor:
    """`idle_s`: how long to stay without work; None means for ever."""

    def __init__(
        self, home: Path, settings: Settings, make_runs: MakeRuns, watcher: Watcher, idle_s: float | None
    ) -> None:
        self._launch_queue: LaunchQueue = FolderLaunchQueue(home)
        self._lock = SupervisorLock(home)
        self._database = database_of(settings)
        self._settings = settings
        self._idle_s = idle_s
        self._manifest = open_manifest(settings, retry_s=settings.queue.give_up_s)
        self._runs = make_runs(settings)
        self._watcher = watcher
        self._executor = JobExecutor(settings, self._manifest, self._runs, settings.worker_count, watcher, self._ended)
        self._of_jobs = JobSettings(make_runs)
        self._waiting: dict[str, _Waiting] = {}
        self._started: dict[str, Launch] = {}
        self._busy_s = time.monotonic()
        self._warned = "", 0.0
        self._looked_for_terminated = Moment()
        self._drain_by_s: float | None = None

    def serve(self, in_place_of_another: bool = False) -> bool:
        """Until drained or idle; False when another supervisor lives, and does not give way."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked_to_drain)
        info = SupervisorInfo(
            worker=self._executor.id,
            pid=os.getpid(),
            build=build(),
            manifest=manifest_identity(self._settings),
            lease_s=self._settings.queue.lease_s,
        )
        # Whoever gives way lets its jobs end first, and may have to find out that its manifest does not answer.
        queue = self._settings.queue
        patience_s = queue.grace_s + queue.give_up_s + HAND_OVER_S if in_place_of_another else HAND_OVER_S
        while True:
            with self._lock.hold(info, patience_s) as alone:
                if not alone:
                    return False
                self._work()
            # A launch that came while the lock was given up found a supervisor, and started none.
            if self._drain_by_s is not None or not has_work_for(self._launch_queue, self._database):
                return True

    def _work(self) -> None:
        warm(HEAVY)
        self._of_jobs.runs_with(self._settings)
        keep_shared()
        self._take_over()
        self._busy_s = time.monotonic()
        try:
            while not self._is_done():
                self._tick()
        finally:
            for active in self._executor.drain():
                self._watcher.ended(active.outcome("pending", note="handed over"))
            self._sweep()

    def _tick(self) -> None:
        """One round. While the disk is full or the manifest away, children work on, and leases may run out."""
        try:
            self._lock.beat()
            self._take_in()
            self._handle_stop_requests()
            self._fill()
            self._executor.poll()
        except EnvironmentalError as error:
            self._warn(f"{error} {error.hint}")
            time.sleep(ASK_AGAIN_S)

    def _warn(self, what: str) -> None:
        """Said once, and again an hour later: what lasts must not fill the disk with its log."""
        now_s, (before, since_s) = time.monotonic(), self._warned
        if what == before and now_s - since_s < WARN_AGAIN_S:
            return
        self._warned = what, now_s
        logging.getLogger(__name__).warning(what)

    def _asked_to_drain(self, _number: int, _frame: FrameType | None) -> None:
        """No new work; what runs may end. Asked twice, it is given back at once."""
        again = self._drain_by_s is not None
        self._drain_by_s = time.monotonic() + (0.0 if again else self._settings.queue.grace_s)

    def _is_done(self) -> bool:
        now_s = time.monotonic()
        if self._executor.active:
            self._busy_s = now_s
            return self._drain_by_s is not None and now_s > self._drain_by_s
        if self._drain_by_s is not None:
            return True
        if any(self._serves(one.launch) for one in self._waiting.values()):
            self._busy_s = now_s
        return self._idle_s is not None and now_s - self._busy_s > self._idle_s

    # --- taking work

    def _take_over(self) -> None:
        """What a supervisor before this one left behind: its jobs come back, its runs go on."""
        rescue_orphans(self._manifest)
        self._sweep()
        with open_instance(self._settings) as instance:
            adopt(instance, self._launch_queue)

    def _sweep(self) -> None:
        ArtifactStore(self._settings.state_dir.absolute() / "artifacts").sweep()

    def _take_in(self) -> None:
        for run_id in self._launch_queue.run_ids() - self._waiting.keys() - self._started.keys():
            launch = self._launch_queue.get(run_id)
            if launch is not None:
                self._waiting[run_id] = _Waiting(launch)

    def _fill(self) -> None:
        if self._drain_by_s is not None:
            return
        now_s = time.monotonic()
        due = [one for one in self._waiting.values() if one.not_before_s <= now_s]
        for one in sorted(due, key=lambda one: (-one.launch.priority, one.launch.launched_at)):
            if not self._serves(one.launch):
                self._put_off(one, f"its manifest is not this worker's ({self._settings.manifest_url})")
            elif self._executor.has_room:
                self._try_to_start(one)

    def _serves(self, launch: Launch) -> bool:
        """Another's launch costs nothing: it waits for a supervisor that was started with what it needs."""
        return launch.database in (None, self._database)

    def _put_off(self, one: _Waiting, why: str) -> None:
        one.not_before_s = time.monotonic() + ASK_AGAIN_S
        if one.why != why:
            one.why = why
            self._runs.note(one.launch.run_id, f"Waiting: {why}.")

    def _try_to_start(self, one: _Waiting) -> None:
        launch = one.launch
        match self._decide(launch):
            case NotYet(why):
                self._put_off(one, why)
            case Refused(why, needless):
                del self._waiting[launch.run_id]
                self._end(launch.run_id, f"Nothing to do: {why}." if needless else f"Refused: {why}.", needless)
            case Ready(job, settings):
                del self._waiting[launch.run_id]
                self._start(launch, job, settings)

    def _decide(self, launch: Launch) -> Ready | Refused | NotYet:
        """Whether a launch can be executed now. One that cannot be understood must not stop the others."""
        try:
            settings = self._settings_of(launch)
            decision = self._executor.with_database_retry(lambda: self._admit(launch, settings))
        except EnvironmentalError as error:
            return NotYet(str(error))
        except PipelineError as error:
            return Refused(f"{error} {error.hint}")
        except Exception as error:
            logging.getLogger(__name__).exception("launch %s", launch)
            return Refused(f"{type(error).__name__}: {error}")
        if isinstance(decision, Admitted):
            return Ready(decision.job, settings_of(decision.job, settings))
        return NotYet(ELSEWHERE) if isinstance(decision, UnderWay) else decision

    def _admit(self, launch: Launch, settings: Settings) -> Decision:
        config_hash_of = partial(self._of_jobs.hash_of, settings=settings)
        return Admission(self._manifest, self._executor.id, settings, config_hash_of).admit(launch)

    def _settings_of(self, launch: Launch) -> Settings:
        """As they are now where the run was launched: an edited settings file counts from the next run on."""
        if not Path(launch.folder).is_dir():
            raise BadSettings(f"the folder {printable(launch.folder)}, from which this run was launched, is gone")
        with contextlib.chdir(launch.folder):
            settings = load(env=launch.environment).settings
            places = {
                # It is ours, and the launch holds no password.
                "db": settings.manifest_url if launch.database is None else self._settings.manifest_url,
                "state_dir": settings.state_dir.absolute(),
                "output_dir": settings.output_dir.absolute(),
            }
        if places["db"] != self._settings.manifest_url:
            raise BadSettings(
                f"this run's manifest is {places['db']}, and this worker's is {self._settings.manifest_url}"
            )
        return settings.model_copy(update=places)

    def _start(self, launch: Launch, job: Job | None, settings: Settings) -> None:
        log, handler = log_path(settings, f"run-{launch.run_id}"), handler_of_launch(launch)
        assignment = Assignment(
            name=launch.run_id,
            subject=Path(launch.job_name if job is None else job.subject),
            job=job,
            run_id=launch.run_id,
            partition_key=launch.partition_key,
            cores=self._cores(),
            whole=handler is None or is_whole(handler, launch),
        )
        pid = self._executor.start(assignment, settings, self._of_jobs.runs_with(settings), log)
        started = replace(launch, worker=self._executor.id, pid=pid, log=str(log))
        self._launch_queue.add(started, durable=False)  # after a power cut nobody executes it
        self._started[launch.run_id] = started

    def _cores(self) -> int:
        """How many cores a child may use: all of them when nothing else is to be done."""
        slots = self._settings.worker_count
        return max(1, slots // min(slots, len(self._executor.active) + len(self._waiting) + 1))

    # --- ending

    def _handle_stop_requests(self) -> None:
        """Runs that a person terminated: asked of our queue or, from another host, by Dagster's records alone."""
        if self._looked_for_terminated.is_past(LOOK_FOR_TERMINATED_S):
            self._looked_for_terminated = Moment()
            for run_id in self._runs.terminated([*self._waiting, *self._started]):
                self._launch_queue.ask_to_stop(run_id)
        for run_id in self._launch_queue.asked_to_stop():
            if run_id in self._started:
                self._executor.stop(self._executor.active[run_id])
                continue
            waiting = self._waiting.pop(run_id, None)
            if waiting is not None and waiting.launch.job_tag is not None and self._serves(waiting.launch):
                job_id, _ = parse_job_tag(waiting.launch.job_tag)
                self._manifest.jobs.cancel(JobFilter(job_ids=[job_id], if_possible=True))
            self._end(run_id, "Terminated before a worker took it.", cancelled=True)

    def _ended(self, active: ActiveJob, outcome: Outcome) -> None:
        report, run_id = active.report, active.name
        if report.ended is not None or ((report.failure or report.outdated) and not active.lease_lost):
            self._launch_queue.remove(run_id)  # the child has ended the run
        elif outcome.status == State.PENDING and not active.is_stopped:
            self._runs.note(run_id, f"{outcome.error}. The run continues in another process.")
            self._waiting[run_id] = _Waiting(self._started[run_id])
        else:
            why = outcome.error if outcome.error is not None else "The worker process had to be killed."
            self._end(run_id, why, cancelled=active.is_stopped)
        del self._started[run_id]
        self._watcher.ended(outcome)

    def _end(self, run_id: str, why: str, cancelled: bool = False) -> None:
        end = self._runs.end_as_cancelled if cancelled else self._runs.end_as_failed
        end(run_id, why)
        self._launch_queue.remove(run_id)


def main() -> int:
    parser = argparse.ArgumentParser(prog="content_pipeline.launchers.local.supervisor")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_S)
    try:
        supervise(parser.parse_args().idle_seconds)
    except Exception as error:
        if os.environ.get("CONTENT_AI_DEBUG"):
            raise
        message = f"{error} {error.hint}" if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
        logging.getLogger(__name__).error("The supervisor ended: %s", message)
        return 1
    return 0


def supervise(idle_s: float) -> None:
    """Returns when idle or drained, or at once when another supervisor was first: it sees to the same launches."""
    settings = load().settings
    home = dagster_home(settings)
    os.environ["DAGSTER_HOME"] = str(home)
    build_definitions: Compose = importlib.import_module(DEFINITIONS).build_definitions
    supervisor = Supervisor(home, settings, partial(DagsterRuns, compose=build_definitions), NullWatcher(), idle_s)
    in_place_of_another = is_outdated(home, manifest_identity(settings))
    if in_place_of_another:  # what it does is finished, or handed over
        drain_supervisor(home)
    supervisor.serve(in_place_of_another)


if __name__ == "__main__":
    sys.exit(main())
