"""`queue status`: how many jobs are in each state, and why work waits."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import print_document, print_result
from content_pipeline.cli.queue.options import queue_options, settings_with_note
from content_pipeline.manifest.lifecycle import State
from content_pipeline.services import queueing
from content_pipeline.services.queueing import STALE, TOTAL, QueueStatus

RULE = "=" * 60
ROWS = {
    "Pending": State.PENDING,
    "In Progress": State.RUNNING,
    "Succeeded": State.SUCCEEDED,
    "Failed": State.FAILED,
    "Dirty": State.DIRTY,
    "Stale": STALE,
    "Cancelled": State.CANCELLED,
    "Discarded": State.DISCARDED,
}


@click.command()
@queue_options
def status(as_json: bool, **given: Any) -> int:
    """Count the jobs in each state, and say why work waits.

    A job whose worker is gone counts as stale, not as running: the next `process`, `queue process` or the daemon
    continues it.
    """
    document = queueing.status(settings_with_note(given))
    print_document(document) if as_json else _print(document)
    return 0


def _print(document: QueueStatus) -> None:
    print_result("QUEUE STATUS")
    print_result(RULE)
    for title, state in ROWS.items():
        print_result(f"{title + ':':<22}{document.of_all_kinds(state)}")
    print_result(RULE)
    print_result(f"{'Total:':<22}{document.of_all_kinds(TOTAL)}")
    if document.of_all_kinds(STALE):
        print_result("Stale jobs: their worker is gone; `content-ai queue process` continues them.")
    for reason in document.waits:
        print_result(f"Waiting: {reason}")
