"""The queue: what it holds and why it waits, one job's history, and what a person can do to jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from content_pipeline.dagster_runtime.lost_manifest import has_dagster_records
from content_pipeline.errors import UnknownJob, printable
from content_pipeline.execution.worker_identity import gone_among, is_awake
from content_pipeline.job_kinds import CALIBRATION, PROCESSING
from content_pipeline.library.keys import canonical_path
from content_pipeline.manifest.database import Access, file_at
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Attempt, Job, Transition
from content_pipeline.manifest.open import open_named_manifest
from content_pipeline.services.document import Document, DocumentList
from content_pipeline.services.pauses import describe_waiting
from content_pipeline.services.workers import describe_unmet, unmet_requirements
from content_pipeline.settings import Settings

# Shown in place of `running` when the worker is gone; no state of its own, for the next command brings the job back.
STALE = "stale"
TOTAL = "total"


class JobSelection(Document):
    """Which jobs an order is about; nothing said means all that it can apply to. An id may be shortened."""

    job_ids: tuple[str, ...] = ()
    kind: str | None = None
    library: Path | None = None
    error_code: str | None = None
    since: timedelta | None = None

    @property
    def names_something(self) -> bool:
        return self != JobSelection()

    def as_filter(self, manifest: Manifest, status: State | None = None) -> JobFilter:
        return JobFilter(
            job_ids=[manifest.jobs.get(job_id).job_id for job_id in self.job_ids] if self.job_ids else None,
            kind=self.kind,
            library=None if self.library is None else str(canonical_path(self.library)),
            status=status,
            error_code=self.error_code,
            since=None if self.since is None else datetime.now(UTC) - self.since,
        )


class QueueStatus(Document):
    """`counts`: by kind of job and state, with `stale` and `total`. `waits`: why work waits, a sentence each."""

    counts: dict[str, dict[str, int]]
    waits: tuple[str, ...]

    def of_all_kinds(self, state: str) -> int:
        return sum(states[state] for states in self.counts.values())


class JobDocument(Document):
    """A job as the manifest has it; its status is `stale` if its worker is gone."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    job_id: str
    kind: str
    library: str
    subject: str
    video_key: str | None
    input_hash_quick: str | None
    input_hash_full: str | None
    input_size: int | None
    config_hash: str | None
    stage_keys: dict[str, str]
    status: str
    priority: int
    claim_count: int
    attempt_count: int
    max_attempts: int
    crash_count: int
    max_crashes: int
    available_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    lease_token: str | None
    worker_id: str | None
    last_heartbeat: datetime | None
    lease_expires_at: datetime | None
    cancel_requested: bool
    run_id: str | None
    progress: dict[str, Any] | None
    error_code: str | None
    last_error: str | None
    output_files: list[str]
    output_hashes: dict[str, str]
    results: dict[str, Any]
    cost: dict[str, Any]
    metadata: dict[str, Any]
    options: dict[str, Any] | None
    force_id: str | None
    requires: str | None

    @classmethod
    def of(cls, job: Job, stale: Collection[str]) -> JobDocument:
        document = cls.model_validate(job)
        return document.model_copy(update={"status": STALE}) if job.job_id in stale else document


class JobList(DocumentList[JobDocument]):
    pass


class JobHistory(JobDocument):
    """Everything about a job. `in_use`: of a calibration, whether the library still uses what it applied.

    `asked`: what a person asked of it, a line each; a job that follows the settings has none.
    """

    transitions: tuple[Transition, ...]
    attempts: tuple[Attempt, ...]
    in_use: bool
    asked: tuple[str, ...]


class Retried(Document):
    retried: int


class Cancelled(Document):
    cancelled: int
    stopping: int


class Discarded(Document):
    discarded: int


class Resumed(Document):
    resumed: int
    pauses_ended: int


# --- looking


def missing_manifest(settings: Settings) -> str | None:
    """Why there is nothing to look at, if there is no manifest; None if there is one."""
    path = file_at(settings.manifest_url)
    if path is None or path.exists():
        return None
    lost = lost_manifest(settings)
    return f"There is no manifest at {printable(path)}: nothing was processed here yet." if lost is None else lost


def lost_manifest(settings: Settings) -> str | None:
    """What to do about a manifest that is gone from a state folder that was used; None if it is not so."""
    path, state = file_at(settings.manifest_url), settings.state_dir.absolute()
    if path is None or path.exists():
        return None
    missing = f"There is no manifest at {printable(path)}"
    if has_dagster_records(settings):
        return f"{missing}, but {printable(state)} was used before: `content-ai queue rebuild` brings it back."
    if (state / "artifacts").exists():
        return f"{missing}, but {printable(state)} holds results: the next `content-ai process` reuses them."
    return None


def status(settings: Settings) -> QueueStatus:
    """How many jobs are in each state, and why work waits."""
    manifest = open_named_manifest(settings, Access.READ)
    by_kind = {kind: manifest.jobs.counts(kind) for kind in (PROCESSING, CALIBRATION)} | manifest.jobs.counts_by_kind()
    counts = {kind: _with_totals(states) for kind, states in by_kind.items()}
    for job in stale_jobs(manifest):
        counts[job.kind]["running"] -= 1
        counts[job.kind][STALE] += 1
    return QueueStatus(
        counts=counts, waits=(*_why_work_waits(manifest), *describe_unmet(unmet_requirements(manifest, settings)))
    )


def list_jobs(
    settings: Settings, selection: JobSelection, state: str | None = None, limit: int = 50, offset: int = 0
) -> JobList:
    """Jobs, the oldest first; `state` is a state of a job, or `stale`."""
    manifest = open_named_manifest(settings, Access.READ)
    stale = {job.job_id for job in stale_jobs(manifest)}
    if state in (State.RUNNING, STALE):
        # Never more than there are workers, so that they can be sorted out here.
        running = manifest.jobs.list(selection.as_filter(manifest, State.RUNNING))
        jobs = [job for job in running if (job.job_id in stale) is (state == STALE)][offset : offset + limit]
    else:
        jobs = manifest.jobs.list(selection.as_filter(manifest, None if state is None else State(state)), limit, offset)
    return JobList(tuple(JobDocument.of(job, stale) for job in jobs))


def show(settings: Settings, name: str) -> JobHistory:
    """Everything about the job with this id, the beginning of it, or the path of its recording or library."""
    manifest = open_named_manifest(settings, Access.READ)
    job = _find(manifest, name)
    document = JobDocument.of(job, {one.job_id for one in stale_jobs(manifest)})
    applied = manifest.calibrations.of_library(Path(job.library))
    return JobHistory(
        **dict(document),
        transitions=tuple(manifest.jobs.history(job.job_id)),
        attempts=tuple(manifest.jobs.attempts(job.job_id)),
        in_use=applied is not None and applied.key == job.stage_keys.get("calibration"),
        asked=_asked(job),
    )


def _asked(job: Job) -> tuple[str, ...]:
    """Of a kind that a newer version wrote, nobody here knows."""
    from content_pipeline.execution.job_kinds import HANDLERS

    return tuple(line for handler in HANDLERS if handler.kind == job.kind for line in handler.describe_request(job))


def _find(manifest: Manifest, name: str) -> Job:
    by_path = manifest.jobs.list(JobFilter(subject=str(canonical_path(Path(name)))), limit=1)
    if by_path:
        return by_path[0]
    if "/" in name or Path(name).exists():
        raise UnknownJob(f"there is no job for {printable(canonical_path(Path(name)))}")
    return manifest.jobs.get(name)


def stale_jobs(manifest: Manifest) -> Sequence[Job]:
    """Jobs that only seem to run: their worker died, or is silent. One that is awake here will renew its lease."""
    found = manifest.jobs.stale(gone_among(manifest.jobs.workers()))
    return [job for job in found if job.worker_id is not None and not is_awake(job.worker_id)]


def _with_totals(states: dict[State, int]) -> dict[str, int]:
    return {**{str(state): number for state, number in states.items()}, STALE: 0, TOTAL: sum(states.values())}


def _why_work_waits(manifest: Manifest) -> list[str]:
    now = datetime.now(UTC)
    reasons = [describe_waiting(one, one.until, now) for one in manifest.breakers.all() if one.until is not None]
    later = manifest.jobs.next_due()
    if later is not None and later > now:
        reasons.append(f"the next retry is due in {round((later - now).total_seconds())} s")
    return reasons


# --- orders


def retry(settings: Settings, selection: JobSelection) -> Retried:
    """Try failed jobs again."""
    manifest = open_named_manifest(settings, Access.USE)
    return Retried(retried=manifest.jobs.retry(selection.as_filter(manifest)))


def cancel(settings: Settings, selection: JobSelection) -> Cancelled:
    """Cancel jobs that wait, and ask those that run to stop."""
    manifest = open_named_manifest(settings, Access.USE)
    waiting, running = manifest.jobs.cancel(selection.as_filter(manifest))
    return Cancelled(cancelled=waiting, stopping=running)


def discard(settings: Settings, selection: JobSelection) -> Discarded:
    """Give up on jobs, until somebody resumes them."""
    manifest = open_named_manifest(settings, Access.USE)
    return Discarded(discarded=manifest.jobs.discard(selection.as_filter(manifest)))


def resume(settings: Settings, selection: JobSelection | None) -> Resumed:
    """Bring cancelled and discarded jobs back, and end every pause; with None, only end the pauses."""
    manifest = open_named_manifest(settings, Access.USE)
    resumed = 0 if selection is None else manifest.jobs.resume(selection.as_filter(manifest))
    return Resumed(resumed=resumed, pauses_ended=manifest.breakers.close())
