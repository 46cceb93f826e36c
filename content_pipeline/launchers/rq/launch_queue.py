"""The launch queue of several hosts. What was launched, Dagster's records say; Redis only announces it.

A run is in the queue while it is announced, while a job is leased to it, or while it has a lease of its own. One that
is in none of these, and has not ended, is announced again by `adopt` (`launchers/abandoned_runs.py`): whatever was
lost, in Redis or with a worker, comes back that way.
"""

from __future__ import annotations

from dataclasses import replace

import dagster as dg

from content_pipeline.dagster_runtime.names import owner_of, queue_of
from content_pipeline.errors import UnknownJob
from content_pipeline.execution.job_kinds import handler_of_launch
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.launchers.launch_queue import LaunchQueue
from content_pipeline.launchers.queue_launcher import EXECUTED_BEFORE, launch_of
from content_pipeline.launchers.rq.announcements import Announcements
from content_pipeline.launchers.rq.redis_server import RedisServer
from content_pipeline.launchers.rq.run_leases import holder_of, leased_runs
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest

QUEUE_ID = "rq"


class RqLaunchQueue(LaunchQueue):
    def __init__(self, instance: dg.DagsterInstance, manifest: Manifest, server: RedisServer) -> None:
        self._instance = instance
        self._manifest = manifest
        self._server = server
        self._announcements = Announcements(server)

    @property
    def id(self) -> str:
        """The same for all hosts: whoever has the same records of Dagster's has the same queue."""
        return QUEUE_ID

    def add(self, launch: Launch, durable: bool = True) -> None:
        self._announcements.announce(launch, self.requirement_of(launch))

    def requirement_of(self, launch: Launch) -> str | None:
        """What its job requires, by the manifest. A run by hand may be about one that does not exist yet."""
        handler = handler_of_launch(launch)
        if handler is None:
            return None
        if launch.job_tag is not None:
            its = JobFilter(job_ids=[parse_job_tag(launch.job_tag)[0]])
        else:
            its = JobFilter(kind=handler.kind, video_key=launch.partition_key)
        jobs = self._manifest.jobs.list(its, limit=1)
        return jobs[0].requires if jobs else None

    def get(self, run_id: str) -> Launch | None:
        """Made from Dagster's records: the message has no more than the id. None when it has ended or is not ours."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished or queue_of(run.tags) != self.id or owner_of(run.tags) is not None:
            return None
        launch = launch_of(run)
        if launch.worker is None and self._was_executed(launch):
            return replace(launch, worker=EXECUTED_BEFORE)
        return launch

    def run_ids(self) -> frozenset[str]:
        running = self._manifest.jobs.list(JobFilter(status=State.RUNNING))
        leased = frozenset(job.run_id for job in running if job.run_id is not None)
        return self._announcements.run_ids() | leased | leased_runs(self._server)

    def remove(self, run_id: str) -> None:
        self._announcements.forget(run_id)

    def ask_to_stop(self, run_id: str) -> None:
        """Whoever works on its job hears of it with the next heartbeat, on whichever host."""
        self._manifest.jobs.cancel(JobFilter(run_id=run_id, status=State.RUNNING, if_possible=True))

    def asked_to_stop(self) -> frozenset[str]:
        """Nobody has to ask: the manifest and Dagster's records tell."""
        return frozenset()

    def worker_of(self, launch: Launch) -> str | None:
        """Who executes the run, by the lease of its job, or by its own; None while it waits for a worker."""
        if handler_of_launch(launch) is None:
            return holder_of(self._server, launch.run_id)
        running = self._manifest.jobs.list(JobFilter(run_id=launch.run_id, status=State.RUNNING), limit=1)
        return running[0].worker_id if running else None

    def _was_executed(self, launch: Launch) -> bool:
        """Whether a worker claimed its job for this run, and died before the run was shown as started."""
        if launch.job_tag is None:
            return False
        job_id, number = parse_job_tag(launch.job_tag)
        try:
            attempts = self._manifest.jobs.attempts(job_id)
        except UnknownJob:
            return False
        return any(one.number >= number and one.run_id == launch.run_id for one in attempts)
