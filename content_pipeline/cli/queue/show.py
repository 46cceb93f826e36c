"""`queue show`: everything about one job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from content_pipeline.cli.live import audio_track
from content_pipeline.cli.printing import describe_target, print_document, print_result
from content_pipeline.cli.queue.options import queue_options, settings_with_note
from content_pipeline.dagster_runtime.names import BACKFILL_PRIORITY
from content_pipeline.errors import hint_for, printable
from content_pipeline.manifest.lifecycle import CLAIMABLE
from content_pipeline.services import queueing
from content_pipeline.services.queueing import STALE, JobHistory
from content_pipeline.stages.calibration_document import CalibrationResults


@click.command()
@click.argument("job_id")
@queue_options
def show(job_id: str, as_json: bool, **given: Any) -> int:
    """Show everything about a job. The id may be shortened, or be the path of its recording or library."""
    job = queueing.show(settings_with_note(given), job_id)
    if as_json:
        print_document(job)
        return 0
    for line in _lines(job):
        print_result(line)
    return 0


def _lines(job: JobHistory) -> Iterator[str]:
    video = "" if job.video_key is None else f", video {job.video_key}"
    yield printable(job.subject)
    yield f"job {job.job_id}, {job.kind}, library {printable(job.library)}{video}"
    budget = f"attempt {job.attempt_count} of {job.max_attempts}, crashes {job.crash_count} of {job.max_crashes}"
    yield f"{job.status}; {budget}; priority {job.priority}"
    if job.status == STALE:
        yield f"its worker {job.worker_id} is gone; `content-ai queue process` continues it"
    elif job.status in CLAIMABLE and job.priority <= BACKFILL_PRIORITY:
        yield "waits for the quiet hours (`schedule.quiet_hours`); `content-ai queue process` does it now"
    if job.error_code is not None:
        yield f"last error ({job.error_code}): {job.last_error}"
        yield f"what to do: {hint_for(job.error_code)}"
    yield from job.asked
    yield from _results(job)
    for one in job.transitions:
        error = f"  [{one.error_snippet}]" if one.error_snippet else ""
        yield f"{one.timestamp:%Y-%m-%d %H:%M:%S}  {one.from_state} -> {one.to_state}: {one.reason}{error}"


def _results(job: JobHistory) -> Iterator[str]:
    facts = job.results.get("facts", {})
    if track := audio_track(facts.get("track"), facts.get("tracks")):
        yield track
    for path in job.output_files:
        yield f"output {printable(path)}"
    for stage, cost in job.cost.items():
        how = "reused" if cost.get("reused") else "computed"
        yield f"{stage:<12} {how:<9} {cost['wall_s']:.2f} s, {cost['cpu_s']:.2f} s of CPU"
    if job.results.get("applied"):
        yield _applied(job)
    yield from job.results.get("notes", ())


def _applied(job: JobHistory) -> str:
    """What a calibration came to, and whether it still counts: it can be reset, or outdone by another."""
    found = CalibrationResults.model_validate(job.results)
    target = "" if found.target is None else f" (target: {describe_target(found.target)})"
    return f"applied detection.{found.setting} {found.value:g}{target}{'' if job.in_use else '; no longer used'}"
