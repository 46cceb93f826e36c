"""`queue rebuild`: bring back what was lost with the manifest."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import counted, print_document, print_result
from content_pipeline.cli.queue.options import queue_options, settings_of
from content_pipeline.dagster_runtime.manifest_recovery import describe_rebuilt, has_dagster_home, rebuild_from_home
from content_pipeline.manifest.open import open_manifest


@click.command()
@queue_options
def rebuild(**given: Any) -> int:
    """Rebuild a lost manifest from Dagster's records. Processes nothing and changes no existing job."""
    as_json = given.pop("as_json")
    settings = settings_of(given)
    manifest = open_manifest(settings)
    rebuilt = rebuild_from_home(settings, manifest) if has_dagster_home(settings) else None
    document = {
        "videos": 0 if rebuilt is None else rebuilt.videos,
        "jobs": 0 if rebuilt is None else rebuilt.jobs,
        "unknown": 0 if rebuilt is None else rebuilt.unknown,
    }
    if as_json:
        print_document(document)
    elif rebuilt is None:
        print_result("There are no Dagster records here to rebuild from.")
    else:
        print_result(describe_rebuilt(rebuilt))
        if rebuilt.unknown:
            unknown = counted(rebuilt.unknown, "video")
            print_result(f"Too little is recorded of {unknown} more: the next `content-ai process` finds them again.")
    return 0
