"""Runs that nobody executes any more: launched ones are put into the queue again, a dead command's are ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import owner_of, queue_of
from content_pipeline.dagster_runtime.runs import is_abandoned
from content_pipeline.launchers.launch_queue import LaunchQueue
from content_pipeline.launchers.queue_launcher import enqueue, launched_runs
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.settings import Settings

ENQUEUEING_S = 10.0
LAUNCHED = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, *LAUNCHED]


def adopt(instance: dg.DagsterInstance, launch_queue: LaunchQueue, older_than_s: float | None = None) -> int:
    """Enqueue the runs that were launched into this queue and are not in it: whoever launched them died meanwhile.

    What was launched a moment ago (`older_than_s`) may still be on its way into the queue; with 0 no clock is asked,
    for the hosts that write these times and this one may disagree. Runs of another host's queue are its own.
    """
    launched = [*LAUNCHED, dg.DagsterRunStatus.CANCELING]
    age_s = ENQUEUEING_S if older_than_s is None else older_than_s
    before = datetime.now(UTC) - timedelta(seconds=age_s) if age_s else None
    runs = instance.get_runs(dg.RunsFilter(statuses=launched, updated_before=before))
    known = launch_queue.run_ids()
    missing = [run for run in runs if run.run_id not in known and _belongs_to(launch_queue, run)]
    for run in reversed(missing):  # Dagster names the latest first
        enqueue(instance, launch_queue, run)
        if run.status is dg.DagsterRunStatus.CANCELING:
            launch_queue.ask_to_stop(run.run_id)
    return len(missing)


def _belongs_to(launch_queue: LaunchQueue, run: dg.DagsterRun) -> bool:
    """One that is in no queue at all, and was never started, died with its launcher: it is anybody's."""
    queue = queue_of(run.tags)
    never_enqueued = queue is None and run.status is dg.DagsterRunStatus.STARTING
    return owner_of(run.tags) is None and (queue == launch_queue.id or never_enqueued)


def close_abandoned(instance: dg.DagsterInstance, manifest: Manifest, statuses: Sequence[dg.DagsterRunStatus]) -> int:
    """End the runs whose process is gone, unless they were launched and somebody goes on with them."""
    runs = instance.get_runs(dg.RunsFilter(statuses=list(statuses)))
    launched = launched_runs(instance)
    abandoned = [run for run in runs if run.run_id not in launched and is_abandoned(run, manifest)]
    for run in abandoned:
        internals.report_worker_died(instance, run, "The process that executed this run is gone.")
    return len(abandoned)


def close_all_abandoned(settings: Settings, manifest: Manifest) -> int:
    """End every run whose process is gone, so that none stays started for ever."""
    with open_instance(settings) as instance:
        return close_abandoned(instance, manifest, UNFINISHED)
