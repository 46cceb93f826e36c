"""`queue status`, `queue list` and `queue show`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from content_pipeline.cli.live import audio_track
from content_pipeline.cli.printing import describe_target, print_document, print_result, scope_in_words
from content_pipeline.cli.queue.options import job_filter_of, job_filter_options, manifest_of, queue_options
from content_pipeline.errors import BadSettings, hint_for, printable
from content_pipeline.execution.worker_identity import gone_among, is_awake
from content_pipeline.library.keys import canonical_path
from content_pipeline.manifest.calibrations import Applied
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job, JobKind
from content_pipeline.settings.job_options import JobOptions
from content_pipeline.stages.calibration_document import CalibrationResults

# Shown in place of `running` when the worker is gone; no state of its own, for the next command brings the job back.
STALE = "stale"
TOTAL = "total"
RULE = "=" * 60
BLOCK = {
    "Pending": State.PENDING,
    "In Progress": State.RUNNING,
    "Succeeded": State.SUCCEEDED,
    "Failed": State.FAILED,
    "Total": TOTAL,
}
REST = {"Dirty": State.DIRTY, "Stale": STALE, "Cancelled": State.CANCELLED, "Discarded": State.DISCARDED}


@click.command()
@queue_options
def status(**given: Any) -> int:
    """Count the jobs in each state, and say why work waits.

    A job whose worker is gone counts as stale, not as running: the next `process`, `queue process` or the daemon
    continues it.
    """
    as_json = given.pop("as_json")
    manifest = manifest_of(given, Access.READ)
    counts = {kind: _counted(states) for kind, states in manifest.jobs.counts().items()}
    for job in stale_jobs(manifest):
        counts[job.kind]["running"] -= 1
        counts[job.kind][STALE] += 1
    waits = why_work_waits(manifest)
    if as_json:
        print_document({"counts": {str(kind): states for kind, states in counts.items()}, "waits": waits})
        return 0
    _print_status({name: sum(states[name] for states in counts.values()) for name in (*State, STALE, TOTAL)})
    for reason in waits:
        print_result(f"Waiting: {reason}")
    return 0


def _print_status(total: Mapping[str, int]) -> None:
    print_result("QUEUE STATUS")
    print_result(RULE)
    for title, name in BLOCK.items():
        print_result(f"{title + ':':<22}{total[name]}")
    print_result(RULE)
    for title, name in REST.items():
        print_result(f"{title + ':':<22}{total[name]}")
    if total[STALE]:
        print_result("Stale jobs: their worker is gone; `content-ai queue process` continues them.")


def _counted(states: dict[State, int]) -> dict[str, int]:
    return {**{str(state): number for state, number in states.items()}, STALE: 0, TOTAL: sum(states.values())}


def stale_jobs(manifest: Manifest) -> Sequence[Job]:
    """Jobs that only seem to run: their worker died, or is silent. One that is awake here will renew its lease."""
    found = manifest.jobs.stale(gone_among(manifest.jobs.workers()))
    return [job for job in found if job.worker_id is not None and not is_awake(job.worker_id)]


def why_work_waits(manifest: Manifest) -> list[str]:
    now = datetime.now(UTC)
    reasons = []
    for breaker in manifest.breakers.all():
        if breaker.until is not None:
            left_s = max(0, round((breaker.until - now).total_seconds()))
            when = f"tried again in {left_s} s" if left_s else "the next job tries again"
            reasons.append(
                f"{scope_in_words(breaker.scope)} is paused ({breaker.error_code}: {breaker.message}); {when}"
            )
    later = manifest.jobs.next_due()
    if later is not None and later > now:
        reasons.append(f"the next retry is due in {round((later - now).total_seconds())} s")
    return reasons


@click.command("list")
@click.option("--status", "state", type=click.Choice([*map(str, State), STALE]), help="Only this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number of jobs.")
@click.option("--offset", default=0, type=click.IntRange(min=0), help="Skip this many.")
@job_filter_options
@queue_options
def list_jobs(state: str | None, limit: int, offset: int, **given: Any) -> int:
    """List jobs, oldest first."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given, Access.READ)
    stale = {job.job_id for job in stale_jobs(manifest)}
    if state in (State.RUNNING, STALE):
        # Never more than there are workers, so that they can be sorted out here.
        running = manifest.jobs.list(job_filter_of(manifest, given, State.RUNNING))
        jobs = [job for job in running if (job.job_id in stale) is (state == STALE)][offset : offset + limit]
    else:
        jobs = manifest.jobs.list(
            job_filter_of(manifest, given, None if state is None else State(state)), limit, offset
        )
    if as_json:
        print_document([as_document(job, stale) for job in jobs])
        return 0
    for job in jobs:
        detail = f"  {job.error_code}: {job.last_error}" if job.error_code is not None else ""
        print_result(f"{job.job_id}  {shown_status(job, stale):<10} {printable(job.subject)}{detail}")
    if not jobs:
        print_result("No jobs.")
    return 0


def shown_status(job: Job, stale: Collection[str]) -> str:
    return STALE if job.job_id in stale else str(job.status)


@click.command()
@click.argument("job_id")
@queue_options
def show(job_id: str, **given: Any) -> int:
    """Show everything about a job. The id may be shortened, or be the path of its recording or library."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given, Access.READ)
    by_path = (manifest.jobs.find(kind, str(canonical_path(Path(job_id)))) for kind in JobKind)
    job = next((job for job in by_path if job is not None), None) or manifest.jobs.get(job_id)
    history, attempts = manifest.jobs.history(job.job_id), manifest.jobs.attempts(job.job_id)
    stale = {one.job_id for one in stale_jobs(manifest)}
    if as_json:
        parts = {"transitions": [asdict(one) for one in history], "attempts": [asdict(one) for one in attempts]}
        print_document(_plain({**as_document(job, stale), **parts}))
        return 0
    _print_job(job, shown_status(job, stale))
    if job.results.get("applied"):
        print_result(_as_applied(job, manifest.calibrations.of_library(Path(job.library))))
    for note in job.results.get("notes", ()):
        print_result(note)
    for one in history:
        error = f"  [{one.error_snippet}]" if one.error_snippet else ""
        print_result(f"{one.timestamp:%Y-%m-%d %H:%M:%S}  {one.from_state} -> {one.to_state}: {one.reason}{error}")
    return 0


def _print_job(job: Job, status: str) -> None:
    video = "" if job.kind is JobKind.CALIBRATION else f", video {job.video_key}"
    print_result(f"{printable(job.subject)}")
    print_result(f"job {job.job_id}, {job.kind}, library {printable(job.library)}{video}")
    budget = f"attempt {job.attempt_count} of {job.max_attempts}, crashes {job.crash_count} of {job.max_crashes}"
    print_result(f"{status}; {budget}; priority {job.priority}")
    if status == STALE:
        print_result(f"its worker {job.worker_id} is gone; `content-ai queue process` continues it")
    if job.error_code is not None:
        print_result(f"last error ({job.error_code}): {job.last_error}")
        print_result(f"what to do: {hint_for(job.error_code)}")
    facts = job.results.get("facts", {})
    if track := audio_track(facts.get("track"), facts.get("tracks")):
        print_result(track)
    for line in _as_asked(job):
        print_result(line)
    for path in job.output_files:
        print_result(f"output {printable(path)}")
    for stage, cost in job.cost.items():
        how = "reused" if cost.get("reused") else "computed"
        print_result(f"{stage:<12} {how:<9} {cost['wall_s']:.2f} s, {cost['cpu_s']:.2f} s of CPU")


def _as_asked(job: Job) -> Iterator[str]:
    """What a command asked of it; one that follows the settings has nothing to tell."""
    if job.kind is JobKind.PROCESSING and job.options is not None:
        try:
            options = JobOptions.from_json(job.options)
        except BadSettings as error:
            yield str(error)
            return
        values = ", ".join(f"{key} {value}" for key, value in options.settings.items())
        yield f"asked for: output folder {printable(options.output_dir)}; {values if values else 'default settings'}"
    if job.force_id is not None:
        yield "forced: nothing older is reused"


def _as_applied(job: Job, in_force: Applied | None) -> str:
    """What a calibration came to, and whether it still counts: it can be reset, or outdone by another."""
    found = CalibrationResults.model_validate(job.results)
    target = "" if found.target is None else f" (target: {describe_target(found.target)})"
    counts = in_force is not None and in_force.key == job.stage_keys.get("calibration")
    return f"applied detection.{found.setting} {found.value:g}{target}{'' if counts else '; no longer used'}"


def as_document(job: Job, stale: Collection[str]) -> dict[str, Any]:
    document: dict[str, Any] = _plain({**asdict(job), "status": shown_status(job, stale)})
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime) else value
