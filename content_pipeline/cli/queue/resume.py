"""`queue resume`: bring cancelled and discarded jobs back, and end pauses."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import counted, print_answer
from content_pipeline.cli.queue.options import (
    job_options,
    queue_options,
    require_selection,
    selection_of,
    settings_with_note,
)
from content_pipeline.services import queueing


@click.command()
@click.option("--all", "everything", is_flag=True, help="All cancelled and discarded jobs.")
@click.option("--pauses", "only_pauses", is_flag=True, help="Resume no job; only end the pauses (breakers).")
@job_options
@queue_options
def resume(everything: bool, only_pauses: bool, as_json: bool, **given: Any) -> int:
    """Bring cancelled and discarded jobs back, and end every pause (breaker)."""
    selection = selection_of(given)
    if only_pauses and (everything or selection.names_something):
        raise click.UsageError("--pauses resumes no job: leave out the jobs, or leave out --pauses")
    if not only_pauses:
        require_selection(everything, selection, "; --pauses ends the pauses and resumes no job")
    done = queueing.resume(settings_with_note(given), None if only_pauses else selection)
    text = f"{counted(done.resumed, 'job')} resumed, {counted(done.pauses_ended, 'pause')} ended"
    next_step = ": run `content-ai queue process`." if done.resumed or done.pauses_ended else "."
    return print_answer(done, as_json, text + next_step)
