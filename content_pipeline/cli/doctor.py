"""`content-ai doctor`: can this machine do the work, and if not, what is missing."""

from __future__ import annotations

from pathlib import Path

import click

from content_pipeline.cli.main import EXIT_FAILURE
from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_document, print_result
from content_pipeline.services import health


@click.command()
@click.option(
    "--verify",
    "recording",
    type=click.Path(exists=True, dir_okay=False),
    help="Also measure this recording with librosa, and compare. Slow, and needs memory for the whole recording.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def doctor(
    recording: str | None, as_json: bool, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]
) -> int:
    """Check that this machine has everything that is needed."""
    settings = resolve(config_file, state_dir, assignments).settings
    document = health.examine(settings, None if recording is None else Path(recording))
    if as_json:
        print_document(document)
    else:
        for finding in document.root:
            print_result(f"{finding.verdict:8} {finding.name:16} {finding.detail}")
    return 0 if document.is_well else EXIT_FAILURE
