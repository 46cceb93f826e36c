"""`queue scrub`: read recordings again, to find changes that nothing else shows."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import counted, print_document, print_result
from content_pipeline.cli.queue.options import queue_options, settings_with_note
from content_pipeline.errors import printable
from content_pipeline.services import upkeep


@click.command()
@click.option(
    "--share", default=0.05, show_default=True, type=click.FloatRange(0, 1), help="Share of the recordings to read."
)
@click.option("--all", "everything", is_flag=True, help="Every recording.")
@queue_options
def scrub(share: float, everything: bool, as_json: bool, **given: Any) -> int:
    """Read a share of the recordings in full, to find changes that size and times do not show."""
    done = upkeep.verify_content(settings_with_note(given), 1.0 if everything else share)
    if as_json:
        print_document(done)
        return 0
    for path in done.changed:
        print_result(f"changed: {printable(path)}")
    read = counted(done.read, "recording")
    print_result(f"{read} read, {len(done.changed)} changed, {done.unreadable} could not be read.")
    return 0
