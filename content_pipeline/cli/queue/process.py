"""`queue process`: do what waits in the queue."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.interruption import StopOnSignal
from content_pipeline.cli.live import LiveProgress
from content_pipeline.cli.main import EXIT_SOME_FAILED
from content_pipeline.cli.printing import print_note, print_result
from content_pipeline.cli.process import compose
from content_pipeline.cli.queue.options import queue_options, settings_of
from content_pipeline.cli.report import print_processing
from content_pipeline.errors import printable
from content_pipeline.services import processing
from content_pipeline.services.processing_document import ProcessingDocument
from content_pipeline.settings.job_options import is_kept


@click.command()
@click.option("-w", "--workers", type=int, help="Videos processed at the same time [one per core].")
@click.option("--max-jobs", type=click.IntRange(min=1), help="Stop after this many jobs.")
@queue_options
def process(workers: int | None, max_jobs: int | None, as_json: bool, **given: Any) -> int:
    """Process the jobs in the queue, whatever folder they came from. Enqueues nothing."""
    _note_what_does_not_count(given["assignments"])
    settings = settings_of(given, workers=workers)
    with LiveProgress() as live, StopOnSignal() as stop:
        document = processing.process_queue(settings, compose, live, stop, max_jobs)
    if not as_json and _did_nothing(document):
        print_result(f"Nothing is waiting in {printable(settings.state_dir.absolute())}.")
    code = print_processing(document, as_json)
    calibration_failed = any(one.error is not None for one in document.calibrations)
    return EXIT_SOME_FAILED if calibration_failed and not code else code


def _did_nothing(document: ProcessingDocument) -> bool:
    return not (document.videos or document.calibrations or document.paused or document.interrupted)


def _note_what_does_not_count(assignments: tuple[str, ...]) -> None:
    """A command's jobs are done with what that command said."""
    named = [key for key in (assignment.partition("=")[0].strip() for assignment in assignments) if is_kept(key)]
    if named:
        print_note(f"{', '.join(named)}: jobs of `content-ai process` keep its settings; ask again to change them.")
