"""`queue retry`, `cancel`, `discard` and `resume`."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import counted, print_document, print_result
from content_pipeline.cli.queue.options import job_filter_of, job_filter_options, manifest_of, queue_options
from content_pipeline.manifest.operator_ops import JobFilter


@click.command()
@click.option("--all", "everything", is_flag=True, help="All failed jobs; the default when no job is named.")
@job_filter_options
@queue_options
def retry(everything: bool, **given: Any) -> int:
    """Try failed jobs again: all of them, or those named by id, error code, age or library."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    number = manifest.jobs.retry(job_filter_of(manifest, given))
    text = f"{counted(number, 'job')} will be tried again: run `content-ai queue process`."
    return _tell(as_json, {"retried": number}, text if number else "No failed jobs to try again.")


@click.command()
@click.option("--all", "everything", is_flag=True, help="All jobs that are pending, dirty or running.")
@job_filter_options
@queue_options
def cancel(everything: bool, **given: Any) -> int:
    """Cancel waiting jobs, and ask running ones to stop. `queue resume` brings them back."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    job_filter = job_filter_of(manifest, given)
    _need_a_choice(everything, job_filter)
    waiting, running = manifest.jobs.cancel(job_filter)
    text = f"{counted(waiting, 'job')} cancelled, {counted(running, 'running job')} asked to stop."
    return _tell(as_json, {"cancelled": waiting, "stopping": running}, text)


@click.command()
@click.option("--all", "everything", is_flag=True, help="All jobs that are pending, dirty, failed or cancelled.")
@job_filter_options
@queue_options
def discard(everything: bool, **given: Any) -> int:
    """Give up on jobs: `queue retry` skips them. `queue resume` brings them back."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    job_filter = job_filter_of(manifest, given)
    _need_a_choice(everything, job_filter)
    number = manifest.jobs.discard(job_filter)
    return _tell(as_json, {"discarded": number}, f"{counted(number, 'job')} discarded.")


@click.command()
@click.option("--all", "everything", is_flag=True, help="All cancelled and discarded jobs.")
@click.option("--pauses", "only_pauses", is_flag=True, help="Resume no job; only end the pauses (breakers).")
@job_filter_options
@queue_options
def resume(everything: bool, only_pauses: bool, **given: Any) -> int:
    """Bring cancelled and discarded jobs back, and end every pause (breaker)."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    job_filter = job_filter_of(manifest, given)
    if only_pauses and (everything or job_filter.conditions()):
        raise click.UsageError("--pauses resumes no job: leave out the jobs, or leave out --pauses")
    if not only_pauses:
        _need_a_choice(everything, job_filter, "; --pauses ends the pauses and resumes no job")
    number = 0 if only_pauses else manifest.jobs.resume(job_filter)
    paused = manifest.breakers.close()
    text = f"{counted(number, 'job')} resumed, {counted(paused, 'pause')} ended."
    return _tell(as_json, {"resumed": number, "pauses_ended": paused}, text)


def _need_a_choice(everything: bool, job_filter: JobFilter, besides: str = "") -> None:
    """An order without a word on which jobs is rarely meant for all of them."""
    if not everything and not job_filter.conditions():
        raise click.UsageError(f"say which jobs: their ids, --error-code, --since, --library, or --all{besides}")


def _tell(as_json: bool, document: dict[str, int], text: str) -> int:
    print_document(document) if as_json else print_result(text)
    return 0
