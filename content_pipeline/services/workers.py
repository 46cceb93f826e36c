"""Who works on the manifest: every worker on every host, what it does, and whether it still speaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from content_pipeline.errors import counted
from content_pipeline.execution.worker_identity import is_gone
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_named_manifest
from content_pipeline.manifest.requirements import capabilities_of, unmet
from content_pipeline.manifest.workers import WorkerRow
from content_pipeline.services.document import Document
from content_pipeline.settings import Settings
from content_pipeline.system.process_identity import ProcessIdentity

WorkerState = Literal["busy", "idle", "stale"]
RUN, UNKNOWN = "run", "unknown"


class WorkerJob(Document):
    """A job that a worker holds. `percent`: of its stage. `lease_left_s`: below 0 when another may take it."""

    job_id: str
    kind: str
    subject: str
    run_id: str | None
    stage: str | None
    percent: float | None
    since: datetime | None
    lease_left_s: float | None


class WorkerDocument(Document):
    """`role`: `worker` (of Dagster's runs), `command` (such as `process`), `run` (one that claims by itself), or
    `unknown`: of an earlier version, which says nothing of itself. `state`: `stale` when it is gone, or silent for
    longer than its lease."""

    worker_id: str
    host: str | None
    pid: int | None
    role: str
    version: str | None
    state: WorkerState
    slots: int | None
    capabilities: tuple[str, ...]
    since: datetime | None
    last_heartbeat: datetime | None
    silent_s: float | None
    jobs: tuple[WorkerJob, ...]


class WorkerList(Document):
    """`at`: the database's time, to which all others compare. `unmet`: how many jobs wait for a capability that no
    worker has."""

    at: datetime
    workers: tuple[WorkerDocument, ...]
    unmet: dict[str, int]


def list_workers(settings: Settings) -> WorkerList:
    """Every worker that the manifest knows of, by host."""
    manifest = open_named_manifest(settings, Access.READ)
    rows, now = manifest.workers.all(), manifest.workers.now()
    running = manifest.jobs.list(JobFilter(status=State.RUNNING))
    missing = unmet_requirements(manifest, settings)
    return WorkerList(at=now, workers=describe_workers(rows, running, now), unmet=missing)


def unmet_requirements(manifest: Manifest, settings: Settings) -> dict[str, int]:
    """How many jobs wait for each capability that no worker has. A local worker starts when it is needed."""
    heard = capabilities_of(manifest.workers.all(), manifest.workers.now())
    here = settings.queue.capabilities if settings.launcher.engine == "local" else ()
    return unmet(manifest.jobs.waiting_requirements(), heard.union(here))


def describe_unmet(missing: Mapping[str, int]) -> list[str]:
    """For people, a sentence each."""
    return [
        f"{counted(number, 'job')} {'requires' if number == 1 else 'require'} {name}, and no worker has it: start one "
        f"with `--capabilities {name}`"
        for name, number in missing.items()
    ]


def describe_workers(rows: Sequence[WorkerRow], running: Iterable[Job], now: datetime) -> tuple[WorkerDocument, ...]:
    """Those that have a row, and those that are known only by the jobs they hold."""
    held: dict[str, list[Job]] = {}
    for job in running:
        if job.worker_id is not None:
            held.setdefault(job.worker_id, []).append(job)
    known = {row.info.worker_id for row in rows}
    return (
        *(_registered(row, held, now) for row in rows),
        *(_by_its_jobs(worker_id, jobs, now) for worker_id, jobs in sorted(held.items()) if worker_id not in known),
    )


def _registered(row: WorkerRow, held: Mapping[str, Sequence[Job]], now: datetime) -> WorkerDocument:
    info, jobs = row.info, held.get(row.info.worker_id, ())
    is_stale = row.is_silent(now) or is_gone(info.worker_id)
    return WorkerDocument(
        worker_id=info.worker_id,
        host=info.host,
        pid=info.pid,
        role=info.role,
        version=info.version,
        state="stale" if is_stale else "busy" if jobs else "idle",
        slots=info.slots,
        capabilities=info.capabilities,
        since=row.started_at,
        last_heartbeat=row.last_heartbeat,
        silent_s=_seconds(row.last_heartbeat, now),
        jobs=tuple(_job(job, now) for job in jobs),
    )


def _by_its_jobs(worker_id: str, jobs: Sequence[Job], now: datetime) -> WorkerDocument:
    process = ProcessIdentity.parse(worker_id)
    beats = [job.last_heartbeat for job in jobs if job.last_heartbeat is not None]
    has_lease = any(job.lease_expires_at is not None and job.lease_expires_at > now for job in jobs)
    return WorkerDocument(
        worker_id=worker_id,
        host=None if process is None else process.host,
        pid=None if process is None else process.pid,
        role=RUN if worker_id.startswith("run:") else UNKNOWN,
        version=None,
        state="busy" if has_lease and not is_gone(worker_id) else "stale",
        slots=None,
        capabilities=(),
        since=min((job.started_at for job in jobs if job.started_at is not None), default=None),
        last_heartbeat=max(beats, default=None),
        silent_s=_seconds(max(beats), now) if beats else None,
        jobs=tuple(_job(job, now) for job in jobs),
    )


def _job(job: Job, now: datetime) -> WorkerJob:
    progress = {} if job.progress is None else job.progress
    fraction, ends = progress.get("fraction"), job.lease_expires_at
    return WorkerJob(
        job_id=job.job_id,
        kind=job.kind,
        subject=job.subject,
        run_id=job.run_id,
        stage=progress.get("stage"),
        percent=round(100 * fraction, 1) if isinstance(fraction, float | int) else None,
        since=job.started_at,
        lease_left_s=None if ends is None else -_seconds(ends, now),
    )


def _seconds(since: datetime, now: datetime) -> float:
    return round((now - since).total_seconds(), 1)
