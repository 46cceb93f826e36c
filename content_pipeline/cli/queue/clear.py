"""`queue clear`: remove jobs, or everything in the manifest."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import confirm, counted, print_answer
from content_pipeline.cli.queue.options import job_options, queue_options, selection_of, settings_with_note
from content_pipeline.services import upkeep


@click.command()
@click.option("--manifest", "whole", is_flag=True, help="Delete everything in the manifest, history included.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@job_options
@queue_options
def clear(whole: bool, yes: bool, dry_run: bool, as_json: bool, **given: Any) -> int:
    """Remove jobs that are not running. Artifacts and history stay, so that processing again is cheap."""
    settings, selection = settings_with_note(given), selection_of(given)
    preview = upkeep.preview_clear(settings, selection, whole)
    if dry_run:
        return print_answer(preview, as_json, f"Would remove {_what(preview.would_clear, whole)}.")
    if not yes:
        confirm(f"Remove {_what(preview.would_clear, whole)}?")
    done = upkeep.clear_manifest(settings) if whole else upkeep.clear(settings, selection)
    return print_answer(done, as_json, f"Removed {_what(done.cleared, whole)}.")


def _what(number: int, whole: bool) -> str:
    return counted(number, "job") + (" and everything else in the manifest" if whole else "")
