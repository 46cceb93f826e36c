"""`queue prune`: delete what is old and of no use any more."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import confirm, counted, print_answer
from content_pipeline.cli.queue.options import duration, queue_options, settings_with_note
from content_pipeline.services import upkeep

# Every number of the document, by its noun.
NOUNS = {
    "jobs": "job",
    "transitions": "history entry",
    "artifacts": "artifact",
    "logs": "log",
    "outputs": "output record",
    "runs": "run",
}
WHAT = (
    "the history of finished jobs, jobs of recordings that are gone, unused artifacts, logs, records of outputs that "
    "are gone, and superseded Dagster runs"
)


@click.command()
@click.option("--older-than", help="Age, e.g. 12h, 30d [as in `schedule.keep_days`].")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@queue_options
def prune(older_than: str | None, yes: bool, as_json: bool, **given: Any) -> int:
    """Delete old history, jobs of recordings that are gone, unused artifacts, old logs and superseded Dagster runs."""
    settings = settings_with_note(given)
    age = None if older_than is None else duration(older_than)
    if not yes:
        how_old = counted(settings.schedule.keep_days, "day") if older_than is None else older_than
        confirm(f"Delete what is older than {how_old}: {WHAT}?")
    pruned = upkeep.prune(settings, age)
    parts = [counted(number, NOUNS[name]) for name, number in pruned]
    return print_answer(pruned, as_json, f"Removed {', '.join(parts[:-1])} and {parts[-1]}.")
