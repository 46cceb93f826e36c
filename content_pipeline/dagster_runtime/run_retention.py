"""Forgetting Dagster's runs that nobody needs: superseded ones soon, those about no partition after a longer time.

A materialization belongs to its run and goes with it. So a run stays for as long as it holds the latest of anything
(materialization, observation or check, per asset and partition): that is what the UI shows, and what a lost manifest is
rebuilt from. The newest run of a partition stays too: it says how the last try ended.
Each run is deleted by itself, in a moment, so that nobody who works meanwhile waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import dagster as dg

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.names import PARTITION_TAG, job_tag_of
from content_pipeline.dagster_runtime.storage import shrink
from content_pipeline.execution.job_kinds import video_kinds
from content_pipeline.execution.names import LIBRARY_PARTITIONS, VIDEO_PARTITIONS, parse_job_tag
from content_pipeline.library.retention import forget_old
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import FINISHED
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.settings import Settings

ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
RUNS_AT_A_TIME = 500

LaunchedRuns = Callable[[], frozenset[str]]  # asked late: a run may be launched meanwhile


def forget_all_old(
    settings: Settings,
    manifest: Manifest,
    instance: dg.DagsterInstance,
    before: datetime,
    launched: LaunchedRuns,
    alive: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """In the manifest and in Dagster's records; what was removed, counted. `alive` is called as it gets on."""
    removed = forget_old(settings, manifest, before, video_kinds())
    superseded_before = datetime.now(UTC) - timedelta(days=settings.schedule.keep_superseded_days)
    removed["runs"] = forget_runs(instance, manifest, before, max(before, superseded_before), launched, alive)
    internals.forget_ticks(instance, before)
    shrink(instance)
    return removed


def forget_runs(
    instance: dg.DagsterInstance,
    manifest: Manifest,
    before: datetime,
    superseded_before: datetime,
    launched: LaunchedRuns,
    alive: Callable[[], None] = lambda: None,
) -> int:
    """Delete the runs that are not needed; returns how many."""
    needed = internals.runs_with_latest_events(instance)
    if needed is None:  # a storage that cannot tell which runs are safe to delete
        return 0
    history = _History(instance, manifest, needed, before, launched)
    needless = [run for some in _ended_runs(instance, superseded_before) for run in history.needless(some)]
    for run_id in needless:
        internals.delete_run(instance, run_id)
        alive()
    return len(needless)


def _ended_runs(instance: dg.DagsterInstance, before: datetime) -> Iterator[Sequence[dg.RunRecord]]:
    """Those of ours, a page at a time, the newest first."""
    wanted, cursor = dg.RunsFilter(statuses=ENDED, updated_before=before), None
    while page := instance.get_run_records(wanted, limit=RUNS_AT_A_TIME, cursor=cursor):
        yield [record for record in page if internals.is_of_our_code(record.dagster_run)]
        cursor = page[-1].dagster_run.run_id


@dataclass(frozen=True)
class _History:
    """`needed` are the runs that hold the latest of something, `launched` those that a launcher is not done with."""

    instance: dg.DagsterInstance
    manifest: Manifest
    needed: frozenset[str]
    before: datetime
    launched: LaunchedRuns

    def needless(self, records: Sequence[dg.RunRecord]) -> list[str]:
        unfinished = self._unfinished(records)
        return [
            record.dagster_run.run_id
            for record in records
            if record.dagster_run.run_id not in self._launched
            and not unfinished & {_job_id(record)}
            and self._is_needless(record)
        ]

    def _is_needless(self, record: dg.RunRecord) -> bool:
        run, is_old = record.dagster_run, record.update_timestamp.replace(tzinfo=UTC) < self.before
        partition = run.tags.get(PARTITION_TAG)
        if partition is None:
            return is_old and run.run_id not in self.needed
        if partition not in self._partitions:  # a person cleared it: nothing is rebuilt from it
            return is_old
        return run.run_id not in self.needed and run.run_id != self._newest(partition)

    def _unfinished(self, records: Sequence[dg.RunRecord]) -> set[str | None]:
        """The jobs of these runs that somebody still has to do."""
        ids = [job_id for record in records if (job_id := _job_id(record)) is not None]
        return {job.job_id for job in self.manifest.jobs.list(JobFilter(job_ids=ids)) if job.status not in FINISHED}

    @cached_property
    def _launched(self) -> frozenset[str]:
        return self.launched()

    @cached_property
    def _partitions(self) -> frozenset[str]:
        names = (VIDEO_PARTITIONS, LIBRARY_PARTITIONS)
        return frozenset(key for name in names for key in self.instance.get_dynamic_partitions(name))

    def _newest(self, partition: str) -> str:
        return self.instance.get_runs(dg.RunsFilter(tags={PARTITION_TAG: partition}), limit=1)[0].run_id


def _job_id(record: dg.RunRecord) -> str | None:
    tag = job_tag_of(record.dagster_run.tags)
    return None if tag is None else parse_job_tag(tag)[0]
