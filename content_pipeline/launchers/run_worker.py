"""What every worker process does with launched runs: admits them, has them executed, and ends their runs.

Where launches come from, and where one goes that cannot go on here, its subclasses know: `local/supervisor.py` and
`rq/worker.py`.
"""

from __future__ import annotations

import logging
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import EnvironmentalError, PipelineError
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.admission import Admission, Admitted, Decision, NotYet, UnderWay
from content_pipeline.execution.assignment import Assignment, log_path
from content_pipeline.execution.job_executor import JobExecutor
from content_pipeline.execution.job_kinds import handler_of_launch
from content_pipeline.execution.job_kinds.handler import Refused, is_whole
from content_pipeline.execution.job_settings import JobSettings, settings_of
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.outcome import Outcome, Watcher
from content_pipeline.execution.runs import MakeRuns
from content_pipeline.execution.warm_up import HEAVY, keep_shared, warm
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import Settings

ELSEWHERE = "this very run is being executed by another process, which has the lease of its job"
LOOK_FOR_TERMINATED_S = 5.0
WARN_AGAIN_S = 3600.0


@dataclass(frozen=True)
class Ready:
    """A launch that was admitted: its job, and what it is made with."""

    job: Job | None
    settings: Settings


class RunWorker(ABC):
    """Keeps nothing that is not in Dagster's records, in the manifest or in its launch queue: it may be killed."""

    _shares_runs = False  # whether another worker may go on with a run that was started here

    def __init__(self, settings: Settings, make_runs: MakeRuns, watcher: Watcher) -> None:
        self._settings = settings
        self._manifest = open_manifest(settings, retry_s=settings.queue.give_up_s)
        for elsewhere in self._manifest.roots.expect():
            logging.getLogger(__name__).warning(elsewhere)
        self._runs = make_runs(settings)
        self._watcher = watcher
        self._executor = JobExecutor(settings, self._manifest, self._runs, settings.worker_count, watcher, self._ended)
        self._of_jobs = JobSettings(make_runs)
        self._started: dict[str, Launch] = {}
        self._warned = "", 0.0
        self._drain_by_s: float | None = None

    # --- what a subclass says

    @abstractmethod
    def _settings_of(self, launch: Launch) -> Settings:
        """What a run is made with, but for what its job was asked for with."""

    @abstractmethod
    def _number_waiting(self) -> int:
        """How many launches wait for a worker."""

    @abstractmethod
    def _has_started(self, launch: Launch) -> None:
        """Its child works."""

    @abstractmethod
    def _has_ended(self, run_id: str) -> None:
        """The run is over, and its launch can be forgotten."""

    @abstractmethod
    def _goes_on(self, launch: Launch) -> None:
        """Its process died, and its job waits: the run continues in another one."""

    # --- working

    def _take_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked_to_drain)

    def _asked_to_drain(self, _number: int, _frame: FrameType | None) -> None:
        """No new work; what runs may end. Asked twice, it is given back at once."""
        again = self._drain_by_s is not None
        self._drain_by_s = time.monotonic() + (0.0 if again else self._settings.queue.grace_s)

    def _load(self) -> None:
        """All that children start with."""
        warm(HEAVY)
        self._of_jobs.runs_with(self._settings)
        keep_shared()

    def _drain(self) -> Sequence[ActiveJob]:
        """What was not done is given back, at no cost."""
        unfinished = self._executor.drain()
        for active in unfinished:
            self._watcher.ended(active.outcome("pending", note="handed over"))
        return unfinished

    def _sweep(self) -> None:
        ArtifactStore(self._settings.state_dir.absolute() / "artifacts").sweep()

    def _warn(self, what: str) -> None:
        """Said once, and again an hour later: what lasts must not fill the disk with its log."""
        now_s, (before, since_s) = time.monotonic(), self._warned
        if what == before and now_s - since_s < WARN_AGAIN_S:
            return
        self._warned = what, now_s
        logging.getLogger(__name__).warning(what)

    # --- starting

    def _decide(self, launch: Launch) -> Ready | Refused | NotYet | UnderWay:
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
        return decision

    def _admit(self, launch: Launch, settings: Settings) -> Decision:
        config_hash_of = partial(self._of_jobs.hash_of, settings=settings)
        return Admission(self._manifest, self._executor.id, settings, config_hash_of).admit(launch)

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
        self._started[launch.run_id] = started
        self._has_started(started)

    def _cores(self) -> int:
        """How many cores a child may use: all of them when nothing else is to be done."""
        slots = self._settings.worker_count
        return max(1, slots // min(slots, len(self._executor.active) + self._number_waiting() + 1))

    # --- ending

    def _ended(self, active: ActiveJob, outcome: Outcome) -> None:
        report, run_id = active.report, active.name
        if report.ended is not None or ((report.failure or report.outdated) and not active.lease_lost):
            self._has_ended(run_id)  # the child has ended the run
        elif active.lease_lost and self._shares_runs:
            self._goes_on(self._started[run_id])  # whoever has its job by now may be executing this very run
        elif outcome.status == State.PENDING and not active.is_stopped:
            self._runs.note(run_id, f"{outcome.error}. The run continues in another process.")
            self._goes_on(self._started[run_id])
        else:
            why = outcome.error if outcome.error is not None else "The worker process had to be killed."
            self._end(run_id, why, cancelled=active.is_stopped)
        del self._started[run_id]
        self._watcher.ended(outcome)

    def _refuse(self, run_id: str, refused: Refused) -> None:
        said = f"Nothing to do: {refused.why}." if refused.needless else f"Refused: {refused.why}."
        self._end(run_id, said, cancelled=refused.needless)

    def _end(self, run_id: str, why: str, cancelled: bool = False) -> None:
        end = self._runs.end_as_cancelled if cancelled else self._runs.end_as_failed
        end(run_id, why)
        self._has_ended(run_id)
