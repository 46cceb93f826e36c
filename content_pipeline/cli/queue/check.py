"""`queue check`: whether the manifest, its history and the outputs agree."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.main import EXIT_FAILURE
from content_pipeline.cli.printing import counted, print_document, print_result
from content_pipeline.cli.queue.options import queue_options, settings_with_note
from content_pipeline.services import upkeep


@click.command()
@queue_options
def check(as_json: bool, **given: Any) -> int:
    """Verify that the manifest, its history and every published file, in every output folder, agree."""
    document = upkeep.check(settings_with_note(given))
    if as_json:
        print_document(document)
    else:
        for one in document.violations:
            print_result(f"{one.invariant}: {one.detail}" + (f" (job {one.job_id})" if one.job_id else ""))
        print_result(
            f"{counted(len(document.violations), 'problem')} found."
            if document.violations
            else "No problems found: the manifest, its history and the outputs agree."
        )
    return EXIT_FAILURE if document.violations else 0
