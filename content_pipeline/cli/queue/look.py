"""`queue status`, `queue list` and `queue show`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from content_pipeline.cli.printing import print_document, print_result, wished
from content_pipeline.cli.queue.options import manifest_of, queue_options, which_of, which_options
from content_pipeline.errors import hint_for, printable
from content_pipeline.library.keys import one_spelling
from content_pipeline.manifest.calibrations import Applied, Calibrations
from content_pipeline.manifest.catalog import Catalog
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Job, QueueType
from content_pipeline.manifest.store import Manifest

RULE = "=" * 60
BLOCK = {
    "Pending": State.PENDING,
    "In Progress": State.RUNNING,
    "Succeeded": State.SUCCEEDED,
    "Failed": State.FAILED,
}
REST = {"Dirty": State.DIRTY, "Cancelled": State.CANCELLED, "Discarded": State.DISCARDED}


@click.command()
@queue_options
def status(**given: Any) -> int:
    """How many jobs are in each state, and why work waits."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    counts = manifest.counts()
    waits = why_work_waits(manifest)
    if as_json:
        print_document({"counts": {str(kind): _counted(states) for kind, states in counts.items()}, "waits": waits})
        return 0
    total = {state: sum(states[state] for states in counts.values()) for state in State}
    print_result("QUEUE STATUS")
    print_result(RULE)
    for name, state in BLOCK.items():
        print_result(f"{name + ':':<22}{total[state]}")
    print_result(f"{'Total:':<22}{sum(total.values())}")
    print_result(RULE)
    for name, state in REST.items():
        print_result(f"{name + ':':<22}{total[state]}")
    for reason in waits:
        print_result(f"Waiting: {reason}")
    return 0


def _counted(states: dict[State, int]) -> dict[str, int]:
    return {**{str(state): number for state, number in states.items()}, "total": sum(states.values())}


def why_work_waits(manifest: Manifest) -> list[str]:
    now = datetime.now(UTC)
    reasons = []
    for breaker in manifest.breakers():
        if breaker.until is not None:
            left_s = max(0, round((breaker.until - now).total_seconds()))
            when = f"tried again in {left_s} s" if left_s else "tried with the next job"
            reasons.append(f"{breaker.scope} is paused ({breaker.error_code}: {breaker.message}); {when}")
    later = Catalog(manifest.engine).next_due()
    if later is not None and later > now:
        reasons.append(f"the next retry is due in {round((later - now).total_seconds())} s")
    return reasons


@click.command("list")
@click.option("--status", "state", type=click.Choice([str(state) for state in State]), help="Only this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="At most this many.")
@click.option("--offset", default=0, type=click.IntRange(min=0), help="Pass over this many.")
@which_options
@queue_options
def list_jobs(state: str | None, limit: int, offset: int, **given: Any) -> int:
    """List jobs, oldest first."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    which = which_of(manifest, given, None if state is None else State(state))
    jobs = manifest.list(which, limit, offset)
    if as_json:
        print_document([as_document(job) for job in jobs])
        return 0
    for job in jobs:
        detail = f"  {job.error_code}: {job.last_error}" if job.error_code is not None else ""
        print_result(f"{job.job_id}  {job.status:<10} {printable(job.video_path)}{detail}")
    if not jobs:
        print_result("No jobs.")
    return 0


@click.command()
@click.argument("job_id")
@queue_options
def show(job_id: str, **given: Any) -> int:
    """Tell a job's whole story. The id may be shortened, or be the path of its recording or library."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    by_path = (manifest.find(kind, str(one_spelling(Path(job_id)))) for kind in QueueType)
    job = next((job for job in by_path if job is not None), None) or manifest.get(job_id)
    history, attempts = manifest.history(job.job_id), manifest.attempts(job.job_id)
    if as_json:
        parts = {"transitions": [asdict(one) for one in history], "attempts": [asdict(one) for one in attempts]}
        print_document(_plain({**as_document(job), **parts}))
        return 0
    video = "" if job.queue_type is QueueType.CALIBRATION else f", video {job.video_key}"
    print_result(f"{printable(job.video_path)}")
    print_result(f"job {job.job_id}, {job.queue_type}, library {printable(job.library)}{video}")
    budget = f"attempt {job.attempt_count} of {job.max_attempts}, crashes {job.crash_count} of {job.max_crashes}"
    print_result(f"{job.status}; {budget}; priority {job.priority}")
    if job.error_code is not None:
        print_result(f"last error ({job.error_code}): {job.last_error}")
        print_result(f"what to do: {hint_for(job.error_code)}")
    if job.results.get("applied"):
        print_result(_as_applied(job, Calibrations(manifest.engine).of_library(Path(job.library))))
    for path in job.output_files:
        print_result(f"output {printable(path)}")
    for stage, cost in job.cost.items():
        how = "reused" if cost.get("reused") else "computed"
        print_result(f"{stage:<12} {how:<9} {cost['wall_s']:.2f} s, {cost['cpu_s']:.2f} s of CPU")
    for one in history:
        error = f"  [{one.error_snippet}]" if one.error_snippet else ""
        print_result(f"{one.timestamp:%Y-%m-%d %H:%M:%S}  {one.from_state} -> {one.to_state}: {one.reason}{error}")
    return 0


def _as_applied(job: Job, in_force: Applied | None) -> str:
    """What a calibration came to, and whether it still counts: it can be reset, or outdone by another."""
    found = job.results
    wish = "" if found["wish"] is None else f" (wish: {wished(found['wish'])})"
    counts = in_force is not None and in_force.key == job.stage_keys.get("calibration")
    return f"applied detection.{found['setting']} {found['value']:g}{wish}{'' if counts else '; reset since'}"


def as_document(job: Job) -> dict[str, Any]:
    document: dict[str, Any] = _plain(asdict(job))
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime) else value
