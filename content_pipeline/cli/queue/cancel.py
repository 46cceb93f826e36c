"""`queue cancel`: cancel jobs that wait, and ask those that run to stop."""

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
@click.option("--all", "everything", is_flag=True, help="All jobs that are pending, dirty or running.")
@job_options
@queue_options
def cancel(everything: bool, as_json: bool, **given: Any) -> int:
    """Cancel waiting jobs, and ask running ones to stop. `queue resume` brings them back."""
    selection = selection_of(given)
    require_selection(everything, selection)
    done = queueing.cancel(settings_with_note(given), selection)
    text = f"{counted(done.cancelled, 'job')} cancelled, {counted(done.stopping, 'running job')} asked to stop."
    return print_answer(done, as_json, text)
