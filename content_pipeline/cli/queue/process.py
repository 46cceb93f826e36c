"""`queue process`: work on what is queued, whatever folder it came from."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from content_pipeline.cli.main import EXIT_SOME_FAILED
from content_pipeline.cli.printing import print_error, print_note
from content_pipeline.cli.queue.options import queue_options, settings_of
from content_pipeline.errors import code_of, hint_for, printable
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.open import open_named_manifest
from content_pipeline.settings import Settings
from content_pipeline.settings.job_options import is_kept


@click.command()
@click.option("-w", "--workers", type=int, help="Videos processed at the same time [one per core].")
@click.option("--max-jobs", type=click.IntRange(min=1), help="Stop after this many jobs.")
@queue_options
def process(workers: int | None, max_jobs: int | None, **given: Any) -> int:
    """Process the jobs in the queue, whatever folder they came from. Enqueues nothing."""
    from content_pipeline.cli.process import Request, finish, run_batch
    from content_pipeline.library.scan import Scan

    as_json = given.pop("as_json")
    _tell_what_does_not_count(given["assignments"])
    settings = settings_of(given, workers=workers)
    # First, for they say what videos are decided with.
    calibrated, failed = _calibrate(settings, max_jobs)
    left = None if max_jobs is None else max_jobs - calibrated
    request = Request(Path.cwd(), settings, as_json=as_json)
    nothing_new = Scan(Path.cwd(), (), (), {})
    code = finish(request, nothing_new, *run_batch(nothing_new, request, queued=True, max_jobs=left))
    return EXIT_SOME_FAILED if failed and not code else code


def _tell_what_does_not_count(assignments: tuple[str, ...]) -> None:
    """A command's jobs are done with what that command said."""
    named = [key for key in (assignment.partition("=")[0].strip() for assignment in assignments) if is_kept(key)]
    if named:
        print_note(f"{', '.join(named)}: jobs of `content-ai process` keep its settings; ask again to change them.")


def _calibrate(settings: Settings, most: int | None) -> tuple[int, int]:
    """Do the calibrations that are due; how many were done, and how many of them failed."""
    from content_pipeline.execution.calibrating import Calibrator

    manifest = open_named_manifest(settings, Access.USE)
    rescue_orphans(manifest)
    done = failed = 0
    for job, outcome in islice(Calibrator(settings, manifest, settings.worker_count).take_all(), most):
        done += 1
        if isinstance(outcome, Exception):
            failed += 1
            print_error(f"calibration of {printable(job.library)}: {outcome}", hint_for(code_of(outcome)))
        else:
            print_note(f"{printable(job.library)} is calibrated: {outcome.told}.")
    return done, failed
