"""`queue rebuild`: bring back what was lost with the manifest."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import counted, print_document, print_result
from content_pipeline.cli.queue.options import queue_options, settings_of
from content_pipeline.services import upkeep
from content_pipeline.services.upkeep import Rebuilt


@click.command()
@queue_options
def rebuild(as_json: bool, **given: Any) -> int:
    """Rebuild a lost manifest from Dagster's records. Processes nothing and changes no existing job."""
    rebuilt = upkeep.rebuild(settings_of(given))
    if as_json:
        print_document(Rebuilt() if rebuilt is None else rebuilt)
    elif rebuilt is None:
        print_result("There are no Dagster records here to rebuild from.")
    else:
        print_result(rebuilt.in_words)
        if rebuilt.unknown:
            unknown = counted(rebuilt.unknown, "video")
            print_result(f"Too little is recorded of {unknown} more: the next `content-ai process` finds them again.")
    return 0
