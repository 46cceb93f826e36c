"""The launcher of several machines: a run is announced in Redis, and a worker of any host takes it.

It starts no workers: `content-ai worker --engine rq` is started on each host, by a person or a service manager. While
Redis is away nothing fails: a launched run waits, and is announced when Redis is back.
"""

from __future__ import annotations

from functools import cached_property

import dagster as dg

from content_pipeline.dagster_runtime.names import owner_of
from content_pipeline.dagster_runtime.private_api import (
    CheckRunHealthResult,
    WorkerStatus,
)
from content_pipeline.errors import RedisAway
from content_pipeline.execution.job_kinds import handler_of_launch
from content_pipeline.execution.launch import Launch
from content_pipeline.launchers.queue_launcher import QueueRunLauncher, enqueue, launch_of
from content_pipeline.launchers.rq.announcements import Announcements
from content_pipeline.launchers.rq.launch_queue import RqLaunchQueue
from content_pipeline.launchers.rq.redis_server import RedisServer, require_postgres
from content_pipeline.launchers.rq.registration import has_registered_workers
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import Settings, load

NO_WORKER_YET = "waits for a worker"


class RqRunLauncher(QueueRunLauncher):
    """Made by `ConfiguredRunLauncher`, which `dagster.yaml` names."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of Dagster's mix-in
        require_postgres(settings)
        self._server = RedisServer(settings)

    @cached_property
    def launch_queue(self) -> RqLaunchQueue:
        return RqLaunchQueue(self._instance, open_manifest(load().settings), self._server)

    def _hand_over(self, run: dg.DagsterRun) -> None:
        """What cannot be announced now is no failure: the run is marked as launched, and `adopt` will announce it."""
        try:
            enqueue(self._instance, self.launch_queue, run)
        except RedisAway as error:
            self._instance.report_engine_event(f"{error} The run waits, and is announced when Redis is back.", run)
            return
        requires = self.launch_queue.requirement_of(launch_of(run))
        whom = "the workers of all hosts" if requires is None else f"the workers that have {requires}"
        self._instance.report_engine_event(f"Announced to {whom}.", run)

    def start_workers(self) -> None:
        """Not ours to start: they are on other hosts."""

    def has_workers(self) -> bool:
        return has_registered_workers(self._server, Announcements(self._server).queues)

    def _is_elsewhere(self, run: dg.DagsterRun) -> bool:
        """Every host is another one: a run is stopped through its job."""
        return True

    def health_of(self, launch: Launch) -> CheckRunHealthResult:
        """Never dead: a run whose worker died loses its lease, is announced again, and goes on with another one."""
        worker = self.launch_queue.worker_of(launch)
        return CheckRunHealthResult(WorkerStatus.RUNNING, NO_WORKER_YET if worker is None else None, None, worker)

    def get_run_worker_debug_info(self, run: dg.DagsterRun, include_container_logs: bool | None = True) -> str | None:
        launch = self.launch_queue.get(run.run_id)
        if launch is None:
            return f"not executed by the workers of this queue; owner {owner_of(run.tags)}"
        worker = self.launch_queue.worker_of(launch)
        by = "its own lease in Redis" if handler_of_launch(launch) is None else "the lease of its job"
        where = NO_WORKER_YET if worker is None else f"worker {worker}, by {by}"
        announced = "is" if run.run_id in Announcements(self._server).run_ids() else "is not"
        return f"{where}; {announced} announced in Redis; its log is logs/run-{run.run_id}.log on the worker's host"

    def dispose(self) -> None:
        self._server.connection.close()
