"""`content-ai doctor`: can this machine do the work, and if not, what is missing."""

from __future__ import annotations

import click

from content_pipeline.cli.main import EXIT_FAILURE
from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_document, print_result
from content_pipeline.services import health


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@settings_options
def doctor(as_json: bool, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> int:
    """Check that this machine has everything that is needed."""
    document = health.examine(resolve(config_file, state_dir, assignments).settings)
    if as_json:
        print_document(document)
    else:
        for finding in document.root:
            print_result(f"{finding.verdict:8} {finding.name:16} {finding.detail}")
    return 0 if document.is_well else EXIT_FAILURE
