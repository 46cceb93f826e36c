"""Jobs that bring videos up to date again, shown as backfills of Dagster.

The manifest decides what is done and when; runs are asked for by the dispatching sensor, a few at a time. So the runs
come first: the first of them name a new backfill, and once they are on record the backfill is added, with everything
that waits as its target. From then on Dagster counts what its runs make, and here it is ended as the manifest says.

Dagster's daemon ends a backfill in which no run goes on, as failed. So one that waits for the night is not added before
it begins. One whose jobs wait for a retry, for a pause to end or behind new recordings is kept open: its failed runs
say that another one follows, and the backfill itself that something has changed. What the daemon ended all the same,
while nobody looked, is opened again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

import dagster as dg

from content_pipeline.dagster_runtime import backfill_records
from content_pipeline.dagster_runtime.backfill_records import Backfill
from content_pipeline.dagster_runtime.names import (
    BACKFILL_ENDED_TAG,
    BACKFILL_KIND_TAG,
    BACKFILL_NOW_PRIORITY,
    BACKFILL_PRIORITY,
    BACKFILL_SEEN_TAG,
    BACKFILL_SINCE_TAG,
    BACKFILL_TAG,
    PARTITION_TAG,
    WILL_RETRY_TAG,
    job_tag_of,
)
from content_pipeline.dagster_runtime.private_api import BulkActionStatus, make_new_backfill_id
from content_pipeline.errors import counted
from content_pipeline.execution.names import VIDEO_PARTITIONS, parse_job_tag
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import CLAIMABLE, FINISHED, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job, JobSummary
from content_pipeline.stage import VIDEO_STAGES

PARTITIONS = dg.DynamicPartitionsDefinition(name=VIDEO_PARTITIONS)
# One that was added longer ago is not looked after any more.
LOOKED_AFTER = timedelta(days=7)


@dataclass(frozen=True)
class Kind:
    """Jobs with this priority belong to one backfill."""

    name: str
    priority: int
    title: str
    description: str


NIGHT = Kind(
    "night",
    BACKFILL_PRIORITY,
    "Nightly backfill",
    "What was out of date when the quiet hours began. The manifest holds the queue; runs are launched a few at a time.",
)
NOW = Kind(
    "now",
    BACKFILL_NOW_PRIORITY,
    "Backfill by hand",
    "What a person wanted brought up to date. The manifest holds the queue; runs are launched a few at a time.",
)
_KINDS = {kind.priority: kind for kind in (NIGHT, NOW)}


class Backfills:
    """As they are at one look. `open_runs` are the runs that have not ended."""

    def __init__(
        self, instance: dg.DagsterInstance, manifest: Manifest, open_runs: Sequence[dg.DagsterRun], now: datetime
    ) -> None:
        self._instance = instance
        self._manifest = manifest
        self._under_way = {run.tags[BACKFILL_TAG] for run in open_runs if BACKFILL_TAG in run.tags}
        self._now = now
        self._announced: dict[str, str] = {}  # kind -> id of a backfill that this look begins

    @cached_property
    def _ours(self) -> list[Backfill]:
        states = (
            BulkActionStatus.REQUESTED,
            BulkActionStatus.COMPLETED_FAILED,
            BulkActionStatus.CANCELING,
            BulkActionStatus.CANCELED,
        )
        return backfill_records.backfills(self._instance, BACKFILL_KIND_TAG, states, self._now - LOOKED_AFTER)

    # --- before runs are asked for

    def tend(self, is_quiet: bool) -> None:
        """Add what has begun, end what is done, and cancel the jobs of what a person cancelled."""
        for kind in _KINDS.values():
            self._add_begun(kind)
        reopened = [one for one in self._ours if _was_ended_by_dagster(one)]
        for backfill in reopened:
            backfill_records.reopen_backfill(self._instance, backfill.backfill_id)
        if reopened:
            del self._ours  # they are read anew
        for backfill in self._ours:
            if backfill.status is BulkActionStatus.REQUESTED:
                self._take_back_promises(backfill)
                self._end_if_done(backfill, is_quiet)
            elif backfill.status is BulkActionStatus.CANCELED and BACKFILL_SEEN_TAG not in backfill.tags:
                self._cancel_waiting(backfill)

    def _add_begun(self, kind: Kind) -> None:
        """A backfill that runs name and nobody has added: its first runs are on record by now."""
        latest = self._instance.get_runs(dg.RunsFilter(tags={BACKFILL_KIND_TAG: kind.name}), limit=1)
        backfill_id = latest[0].tags.get(BACKFILL_TAG) if latest else None
        if backfill_id is None or backfill_records.has_backfill(self._instance, backfill_id):
            return
        runs = self._instance.get_runs(dg.RunsFilter(tags={BACKFILL_TAG: backfill_id}))
        waiting = self._manifest.jobs.waiting_with_priority(kind.priority)
        known = set(self._instance.get_dynamic_partitions(VIDEO_PARTITIONS))
        keys = {run.tags[PARTITION_TAG] for run in runs} | {job.video_key for job in waiting if job.video_key in known}
        backfill_records.add_backfill(
            self._instance,
            backfill_id,
            title=f"{kind.title}: {counted(len(keys), 'video')}",
            description=kind.description,
            tags={BACKFILL_KIND_TAG: kind.name},
            assets=VIDEO_STAGES,
            partitions=PARTITIONS,
            keys=sorted(key for key in keys if key is not None),
            after_event=int(latest[0].tags[BACKFILL_SINCE_TAG]),
        )

    def _end_if_done(self, backfill: Backfill, is_quiet: bool) -> None:
        if backfill.backfill_id in self._under_way:
            return
        jobs = self._manifest.jobs.summaries_of_videos(backfill.keys)
        left = [job for job in jobs if job.status not in FINISHED]
        if not left:
            failed = backfill.keys - _succeeded(jobs)
            status = BulkActionStatus.COMPLETED_FAILED if failed else BulkActionStatus.COMPLETED_SUCCESS
            backfill_records.tag_backfill(self._instance, backfill.backfill_id, {BACKFILL_ENDED_TAG: "true"})
            backfill_records.end_backfill(self._instance, backfill.backfill_id, status, PARTITIONS, failed)
        elif backfill.tags[BACKFILL_KIND_TAG] == NIGHT.name and not is_quiet:
            self._end_until_next_night(backfill, left)
        else:
            backfill_records.keep_open(self._instance, backfill.backfill_id)

    def _take_back_promises(self, backfill: Backfill) -> None:
        """A failed run whose job has ended is not followed by another one, as was assumed when it was asked for."""
        promised = {BACKFILL_TAG: backfill.backfill_id, WILL_RETRY_TAG: "true"}
        failed = self._instance.get_runs(dg.RunsFilter(tags=promised, statuses=[dg.DagsterRunStatus.FAILURE]))
        if not failed:
            return
        jobs = self._manifest.jobs.summaries_of_videos(frozenset(run.tags[PARTITION_TAG] for run in failed))
        left = {job.job_id for job in jobs if job.status not in FINISHED}
        for run in failed:
            tag = job_tag_of(run.tags)
            if tag is None or parse_job_tag(tag)[0] not in left:
                self._instance.add_run_tags(run.run_id, {WILL_RETRY_TAG: "false"})

    def _end_until_next_night(self, backfill: Backfill, left: Sequence[JobSummary]) -> None:
        backfill_records.tag_backfill(
            self._instance, backfill.backfill_id, {BACKFILL_SEEN_TAG: "the quiet hours ended"}
        )
        backfill_records.end_backfill(
            self._instance,
            backfill.backfill_id,
            BulkActionStatus.CANCELED,
            PARTITIONS,
            {job.video_key for job in left if job.video_key is not None},
            f"The quiet hours ended: {counted(len(left), 'video')} of {len(backfill.keys)} wait for the next night.",
        )

    def _cancel_waiting(self, backfill: Backfill) -> None:
        """Its runs were terminated, and their jobs are cancelled; what had no run yet is cancelled likewise."""
        jobs = self._manifest.jobs.summaries_of_videos(backfill.keys)
        waiting = [job.job_id for job in jobs if job.status in CLAIMABLE]
        self._manifest.jobs.cancel(JobFilter(job_ids=waiting, if_possible=True))
        backfill_records.tag_backfill(
            self._instance, backfill.backfill_id, {BACKFILL_SEEN_TAG: counted(len(waiting), "job")}
        )

    # --- of each run that is asked for

    def is_being_cancelled(self, key: str) -> bool:
        return any(one.status is BulkActionStatus.CANCELING and key in one.keys for one in self._ours)

    def tags_of(self, job: Job, key: str) -> Mapping[str, str]:
        """By which a run shows as part of its backfill; none for a job that belongs to no backfill."""
        kind = _KINDS.get(job.priority) if job.kind == PROCESSING else None
        if kind is None:
            return {}
        open_ones = [one for one in self._ours if one.status is BulkActionStatus.REQUESTED and _is_of(one, kind)]
        if open_ones:
            its = next((one for one in open_ones if key in one.keys), None)
            return {} if its is None else {BACKFILL_TAG: its.backfill_id, BACKFILL_KIND_TAG: kind.name, **self._promise}
        begun = self._announced.setdefault(kind.name, make_new_backfill_id())
        return {
            BACKFILL_TAG: begun,
            BACKFILL_KIND_TAG: kind.name,
            BACKFILL_SINCE_TAG: str(self._events_before),
            **self._promise,
        }

    @property
    def _promise(self) -> Mapping[str, str]:
        """Should the run fail, another one follows. Where Dagster retries runs itself, it says so itself."""
        return {} if self._instance.run_retries_enabled else {WILL_RETRY_TAG: "true"}

    @cached_property
    def _events_before(self) -> int:
        return backfill_records.last_event(self._instance)


def _was_ended_by_dagster(backfill: Backfill) -> bool:
    return backfill.status is BulkActionStatus.COMPLETED_FAILED and BACKFILL_ENDED_TAG not in backfill.tags


def _is_of(backfill: Backfill, kind: Kind) -> bool:
    return backfill.tags[BACKFILL_KIND_TAG] == kind.name


def _succeeded(jobs: Collection[JobSummary]) -> frozenset[str]:
    """The videos all of whose files are done."""
    not_done = {job.video_key for job in jobs if job.status is not State.SUCCEEDED}
    return frozenset(job.video_key for job in jobs if job.video_key is not None and job.video_key not in not_done)
