"""`queue retry`: try failed jobs again."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import counted, print_answer
from content_pipeline.cli.queue.options import job_options, queue_options, selection_of, settings_with_note
from content_pipeline.services import queueing


@click.command()
@click.option("--all", "everything", is_flag=True, help="All failed jobs; the default when no job is named.")
@job_options
@queue_options
def retry(everything: bool, as_json: bool, **given: Any) -> int:
    """Try failed jobs again: all of them, or those named by id, type, error code, age or library."""
    done = queueing.retry(settings_with_note(given), selection_of(given))
    text = f"{counted(done.retried, 'job')} will be tried again: run `content-ai queue process`."
    return print_answer(done, as_json, text if done.retried else "No failed jobs to try again.")
