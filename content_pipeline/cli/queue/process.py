"""`queue process`: work on what is queued, whatever folder it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from content_pipeline.cli.queue.options import queue_options, settings_of


@click.command()
@click.option("-w", "--workers", type=int, help="Videos processed at once [one per core].")
@click.option("--max-jobs", type=click.IntRange(min=1), help="Stop after this many jobs.")
@queue_options
def process(workers: int | None, max_jobs: int | None, **given: Any) -> int:
    """Work on what is queued; enqueues nothing new."""
    from content_pipeline.cli.process import Request, finish, run_batch
    from content_pipeline.library.scan import Scan

    as_json = given.pop("as_json")
    settings = settings_of(given, workers=workers)
    request = Request(Path.cwd(), settings, as_json=as_json)
    nothing_new = Scan(Path.cwd(), (), (), {})
    return finish(request, nothing_new, *run_batch(nothing_new, request, queued=True, max_jobs=max_jobs))
