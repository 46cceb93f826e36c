"""`queue discard`: give up on jobs."""

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
@click.option("--all", "everything", is_flag=True, help="All jobs that are pending, dirty, failed or cancelled.")
@job_options
@queue_options
def discard(everything: bool, as_json: bool, **given: Any) -> int:
    """Give up on jobs: `queue retry` skips them. `queue resume` brings them back."""
    selection = selection_of(given)
    require_selection(everything, selection)
    done = queueing.discard(settings_with_note(given), selection)
    return print_answer(done, as_json, f"{counted(done.discarded, 'job')} discarded.")
