"""`queue list`: the jobs, a line each."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import print_document, print_result
from content_pipeline.cli.queue.options import job_options, queue_options, selection_of, settings_with_note
from content_pipeline.errors import printable
from content_pipeline.manifest.lifecycle import State
from content_pipeline.services import queueing
from content_pipeline.services.queueing import STALE


@click.command("list")
@click.option("--status", "state", type=click.Choice([*map(str, State), STALE]), help="Only this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(min=1), help="Maximum number of jobs.")
@click.option("--offset", default=0, type=click.IntRange(min=0), help="Skip this many.")
@job_options
@queue_options
def list_jobs(state: str | None, limit: int, offset: int, as_json: bool, **given: Any) -> int:
    """List jobs, oldest first."""
    jobs = queueing.list_jobs(settings_with_note(given), selection_of(given), state, limit, offset)
    if as_json:
        print_document(jobs)
        return 0
    for job in jobs.root:
        detail = f"  {job.error_code}: {job.last_error}" if job.error_code is not None else ""
        print_result(f"{job.job_id}  {job.status:<10} {printable(job.subject)}{detail}")
    if not jobs.root:
        print_result("No jobs.")
    return 0
