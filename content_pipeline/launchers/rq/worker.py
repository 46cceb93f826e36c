"""The worker of a host under RQ: takes announced runs, forks a warm child for each, and brings back what died.

Each round it does several things, and none of them waits for the others: Redis or Postgres may be away at any moment,
while children work on and keep their leases. Killed, it leaves leases that run out; whoever lives, on whichever host,
brings its jobs back and announces its runs again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import dagster as dg

from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.runs import is_worked_on
from content_pipeline.errors import BadSettings, EnvironmentalError, PipelineError, named
from content_pipeline.execution.admission import NotYet, UnderWay
from content_pipeline.execution.job_kinds import handler_of_launch
from content_pipeline.execution.job_kinds.handler import Refused
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.execution.outcome import Watcher
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.execution.runs import MakeRuns
from content_pipeline.launchers.abandoned_runs import adopt
from content_pipeline.launchers.queue_launcher import EXECUTED_BEFORE, cancel_waiting
from content_pipeline.launchers.rq.announcements import Announcements
from content_pipeline.launchers.rq.launch_queue import RqLaunchQueue
from content_pipeline.launchers.rq.redis_server import RedisServer, require_postgres
from content_pipeline.launchers.rq.registration import Registration
from content_pipeline.launchers.rq.run_leases import RunLeases
from content_pipeline.launchers.run_worker import LOOK_FOR_TERMINATED_S, Ready, RunWorker
from content_pipeline.settings import Settings

RENEW_S = 1.0
BRING_BACK_S = 5.0
SWEEP_S = 60.0
SHORT_WAIT_S = 1
ASK_AGAIN_S = 2.0  # after Redis or the database did not answer
MOST_TOLD = 1000


class RqWorker(RunWorker):
    """`current` reads the settings anew: an edited file counts from the next run on. `kinds`: what it takes."""

    _shares_runs = True

    def __init__(
        self,
        settings: Settings,
        current: Callable[[], Settings],
        make_runs: MakeRuns,
        watcher: Watcher,
        kinds: Sequence[str],
    ) -> None:
        require_postgres(settings)
        self._server = RedisServer(settings)
        self._server.expect()  # said now, to whoever starts a worker
        super().__init__(settings, make_runs, watcher)
        self._current = current
        self._announcements = Announcements(self._server, kinds, settings.queue.capabilities)
        self._registration = Registration(self._server, self._announcements.queues, self._executor.id)
        self._leases = RunLeases(self._server, self._executor.id, settings.queue.lease_s)
        self._told: dict[str, str] = {}  # why a run waits, as its log was last told
        self._due: dict[Callable[[], None], float] = {}

    def serve(self) -> None:
        """Until drained."""
        self._take_signals()
        self._load()
        try:
            while not self._is_done():
                self._tick()
        finally:
            unfinished = [active.name for active in self._drain()]
            self._try(lambda: self._hand_back(unfinished))
            self._try(self._registration.end)
            self._sweep()

    def _is_done(self) -> bool:
        if self._drain_by_s is None:
            return False
        return not self._executor.active or time.monotonic() > self._drain_by_s

    # --- one round

    def _tick(self) -> None:
        self._every(RENEW_S, self._renew)
        self._every(LOOK_FOR_TERMINATED_S, self._stop_terminated)
        self._every(BRING_BACK_S, self._bring_back)
        self._every(SWEEP_S, self._sweep)
        self._every(0.0, self._take)
        self._try(self._executor.poll)

    def _every(self, interval_s: float, step: Callable[[], None]) -> None:
        """What failed is tried again a little later, not at once: it may take seconds to fail."""
        now_s = time.monotonic()
        if now_s >= self._due.get(step, 0.0):
            worked = self._try(step)
            self._due[step] = time.monotonic() + (interval_s if worked else max(interval_s, ASK_AGAIN_S))

    def _try(self, step: Callable[[], None]) -> bool:
        """False when the environment is in the way: that is said, and passes. Anything else is a mistake of ours."""
        try:
            step()
        except Exception as error:
            found = named(error)
            if not isinstance(found, EnvironmentalError):
                raise
            self._warn(f"{found} {found.hint}")
            return False
        return True

    def _renew(self) -> None:
        """Of runs that are about no job; the executor renews those of jobs."""
        for run_id, active in self._executor.active.items():
            if active.assignment.job is None and not self._leases.renew(run_id):
                self._executor.stop(active)
        self._registration.renew(bool(self._executor.active))

    def _stop_terminated(self) -> None:
        active = self._executor.active
        for run_id in self._runs.terminated(list(active)):
            self._executor.stop(active[run_id])

    def _bring_back(self) -> None:
        """Jobs whose worker is gone, and runs of which nobody knows any more; any number of processes may do it."""
        rescue_orphans(self._manifest)
        with open_instance(self._settings) as instance:
            adopt(instance, self._queue(instance), older_than_s=0.0)  # what is announced twice costs next to nothing

    def _queue(self, instance: dg.DagsterInstance) -> RqLaunchQueue:
        return RqLaunchQueue(instance, self._manifest, self._server)

    # --- taking work

    def _take(self) -> None:
        """No more than can be started now: what waits, waits where another host can take it."""
        while self._executor.has_room and self._drain_by_s is None:
            try:
                self._current()
            except BadSettings as error:
                self._warn(f"No run is taken: {error} {error.hint}")
                return
            run_id = self._announcements.take(None if self._executor.active else SHORT_WAIT_S)
            if run_id is None:
                return
            if run_id not in self._started:
                self._consider(run_id)

    def _consider(self, run_id: str) -> None:
        """What is not started here is forgotten here: if it still has to be done, it is announced again."""
        with open_instance(self._settings) as instance:
            launch = self._queue(instance).get(run_id)
            run = instance.get_run_by_id(run_id)
            if launch is None or run is None:
                return
            if run.status is dg.DagsterRunStatus.CANCELING:
                self._end_terminated(run, launch)
                return
        if handler_of_launch(launch) is None and not self._leases.claim(run_id, launch.worker == EXECUTED_BEFORE):
            return
        match self._decide(launch):
            case NotYet(why, requires):
                self._tell(run_id, why)
                if requires is not None:
                    self._announcements.announce(launch, requires)  # to those who can do it
            case UnderWay():
                pass  # a doubled message: whoever has the lease goes on
            case Refused() as refused:
                self._refuse(run_id, refused)
            case Ready(job, settings):
                self._start(launch, job, settings)

    def _end_terminated(self, run: dg.DagsterRun, launch: Launch) -> None:
        if is_worked_on(run, self._manifest):
            return  # whoever works on it stops by itself
        if launch.job_tag is not None:
            cancel_waiting(parse_job_tag(launch.job_tag)[0], self._manifest)
        self._end(run.run_id, "Terminated before a worker took it.", cancelled=True)

    def _tell(self, run_id: str, why: str) -> None:
        if self._told.get(run_id) == why:
            return
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told[run_id] = why
        self._runs.note(run_id, f"Waiting: {why}.")

    def _settings_of(self, launch: Launch) -> Settings:
        """Those of this host; where things are, and what it can do, stays as it was at the start."""
        kept, current = self._settings, self._current()
        places = {
            # The queues that it listens to were chosen by these.
            "queue": current.queue.model_copy(update={"capabilities": kept.queue.capabilities}),
            "db": kept.manifest_url,
            "dagster_storage": kept.dagster_storage,
            "state_dir": kept.state_dir.absolute(),
            "output_dir": kept.output_dir.absolute(),
        }
        return current.model_copy(update=places)

    def _number_waiting(self) -> int:
        try:
            return self._announcements.count()
        except PipelineError:
            return self._settings.worker_count  # not known: assume that there is work for all

    def _has_started(self, launch: Launch) -> None:
        self._told.pop(launch.run_id, None)

    # --- ending

    def _has_ended(self, run_id: str) -> None:
        self._told.pop(run_id, None)
        launch = self._started.get(run_id)
        if launch is not None and handler_of_launch(launch) is None:
            self._try(lambda: self._leases.release(run_id))

    def _goes_on(self, launch: Launch) -> None:
        self._try(lambda: self._hand_back([launch.run_id]))

    def _hand_back(self, run_ids: Sequence[str]) -> None:
        """Announced at once, so that another host goes on; what cannot be announced now is, a little later."""
        with open_instance(self._settings) as instance:
            queue = self._queue(instance)
            for run_id in run_ids:
                self._leases.release(run_id)
                launch = queue.get(run_id)
                if launch is not None:
                    queue.add(launch)
