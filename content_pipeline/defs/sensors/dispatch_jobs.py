"""Dispatching: Dagster is asked for a run of each job that is due. The backlog stays in the manifest.

Only a small window of runs is open in Dagster at a time: its queue is scanned whole, again and again. What requires
a capability that no worker has stays in the manifest, and each requirement has a share of the window: what waits for
one host does not keep the others waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import dagster as dg

from content_pipeline.dagster_runtime.backfills import Backfills
from content_pipeline.dagster_runtime.names import BACKFILL_PRIORITY, JOB_TAG, PRIORITY_TAG, job_tag_of
from content_pipeline.errors import PipelineError, code_of, named
from content_pipeline.execution.job_kinds import PROCESSING, JobKindHandler
from content_pipeline.execution.names import job_tag, parse_job_tag
from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.execution.worker_registration import WORKER
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure
from content_pipeline.manifest.open import open_manifest
from content_pipeline.manifest.requirements import capabilities_of
from content_pipeline.settings import ScheduleSettings, Settings

OPEN = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
MOST_VAIN_RUNS = 3
WINDOW = 32  # enough for short recordings: a window is refilled every few seconds


@dataclass(frozen=True)
class DueRun:
    """One attempt of one job, to be executed by one run."""

    job: Job
    partition_key: str
    tag: str
    run_key: str
    backfill: Mapping[str, str] = field(default_factory=dict)  # the tags that make it part of one

    @property
    def tags(self) -> dict[str, str]:
        return {**self.backfill, JOB_TAG: self.tag, PRIORITY_TAG: str(self.job.priority)}


def dispatch_sensor(current: Callable[[], Settings], handler: JobKindHandler) -> dg.SensorDefinition:
    """The sensor of one kind of job."""

    @dg.sensor(
        name=handler.dispatch.sensor,
        job_name=handler.dagster_job,
        minimum_interval_seconds=handler.dispatch.interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=handler.dispatch.description,
    )
    def dispatch(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        due = due_runs(current(), context.instance, datetime.now(UTC), handler)
        if not due:
            return dg.SkipReason(handler.dispatch.nothing_due)
        context.instance.add_dynamic_partitions(handler.partitions, sorted({run.partition_key for run in due}))
        return dg.SensorResult(run_requests=[_request(run) for run in due])

    return dispatch


def _request(run: DueRun) -> dg.RunRequest:
    return dg.RunRequest(run_key=run.run_key, partition_key=run.partition_key, tags=run.tags)


def due_runs(
    settings: Settings,
    instance: dg.DagsterInstance,
    now: datetime,
    handler: JobKindHandler = PROCESSING,
) -> Sequence[DueRun]:
    manifest, quiet = open_manifest(settings), is_quiet(settings.schedule, now)
    open_runs = instance.get_runs(dg.RunsFilter(statuses=OPEN))
    backfills = Backfills(instance, manifest, open_runs, now)
    if handler is PROCESSING:
        backfills.tend(quiet)
    under_way = _under_way(open_runs)
    window = max(WINDOW, 2 * settings.worker_count)
    if len(under_way) >= window:
        return []
    lowest = None if quiet else BACKFILL_PRIORITY + 1
    claim = ClaimRequest(this_worker(), window + len(under_way), handler.kind, min_priority=lowest)
    waiting = {
        one: manifest.jobs.due(replace(claim, requirements=frozenset([one])))
        for one in _met_requirements(settings, manifest)
    }
    jobs = share_window(window, waiting, under_way, _requirements_of(under_way, manifest))
    found = [_due_run(job, handler, instance, manifest) for job in jobs]
    due = [one for one in found if one is not None and not backfills.is_being_cancelled(one.partition_key)]
    return [replace(one, backfill=backfills.tags_of(one.job, one.partition_key)) for one in due]


def share_window(
    window: int,
    waiting: Mapping[str | None, Sequence[Job]],
    under_way: Collection[str],
    open_by_requirement: Mapping[str | None, int],
) -> list[Job]:
    """The jobs to ask runs for: of each requirement that has any, an equal share, less what is open of it."""
    left = {one: [job for job in jobs if job.job_id not in under_way] for one, jobs in waiting.items()}
    concerned = {one for one, jobs in left.items() if jobs} | set(open_by_requirement)
    share = max(1, window // max(1, len(concerned)))
    chosen = [job for one, jobs in left.items() for job in jobs[: max(0, share - open_by_requirement.get(one, 0))]]
    return sorted(chosen, key=lambda job: (-job.priority, job.available_at, job.job_id))


def _met_requirements(settings: Settings, manifest: Manifest) -> list[str | None]:
    """What somebody can do: with RQ the workers that speak, else this machine, which starts one when it is needed."""
    if settings.launcher.engine == "local":
        return [None, *settings.queue.capabilities]
    return [None, *sorted(capabilities_of(manifest.workers.all(), manifest.workers.now(), WORKER))]


def _requirements_of(job_ids: Collection[str], manifest: Manifest) -> Counter[str | None]:
    return Counter(job.requires for job in manifest.jobs.list(JobFilter(job_ids=sorted(job_ids))))


def _under_way(runs: Sequence[dg.DagsterRun]) -> set[str]:
    """The jobs that a run was asked for, which has not ended."""
    tags = [tag for run in runs if (tag := job_tag_of(run.tags)) is not None]
    return {parse_job_tag(tag)[0] for tag in tags}


def _due_run(job: Job, handler: JobKindHandler, instance: dg.DagsterInstance, manifest: Manifest) -> DueRun | None:
    try:
        key = handler.partition_key(job, manifest)
    except Exception as error:  # noqa: BLE001 - one file's trouble must not keep the others waiting
        _fail_in_its_place(job, handler, named(error), manifest)
        return None
    tag = job_tag(job.job_id, job.claim_count + 1)
    # Runs that ended without ever claiming the job: the attempt is as it was, and the next one needs another key.
    before = instance.get_run_records(dg.RunsFilter(tags={JOB_TAG: tag}))
    vain = [one for one in before if one.update_timestamp.replace(tzinfo=UTC) > job.available_at]
    if any(one.dagster_run.status is dg.DagsterRunStatus.CANCELED for one in vain):
        manifest.jobs.cancel(JobFilter(job_ids=[job.job_id], if_possible=True))  # a person terminated it in the queue
        return None
    if len(vain) >= MOST_VAIN_RUNS:
        in_vain = RuntimeError(f"{len(vain)} runs of {key} failed before they started to work")
        _fail_in_its_place(job, handler, in_vain, manifest)
        return None
    return DueRun(job, key, tag, f"{tag}:{len(before)}")


def _fail_in_its_place(job: Job, handler: JobKindHandler, error: Exception, manifest: Manifest) -> None:
    """A file that cannot even be told apart from others fails here, under the same fence and rules as in a worker."""
    kind = type(error) if isinstance(error, PipelineError) else PipelineError
    for claimed in manifest.jobs.claim(ClaimRequest(this_worker(), kind=job.kind, job_ids=[job.job_id])):
        failure = JobFailure(code_of(error), str(error), kind.policy, handler.stages[0])
        manifest.jobs.fail(claimed.lease, failure)


def is_quiet(schedule: ScheduleSettings, now: datetime) -> bool:
    """Whether it is a time for work that can wait. Hours may go over midnight."""
    start, _, end = schedule.quiet_hours.partition("-")
    clock = now.astimezone(ZoneInfo(schedule.timezone)).strftime("%H:%M")
    return start <= clock < end if start < end else clock >= start or clock < end
