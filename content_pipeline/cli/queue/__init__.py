"""`content-ai queue`: look at the jobs, and steer them."""

from __future__ import annotations

import click

from content_pipeline.cli.queue.look import list_jobs, show, status
from content_pipeline.cli.queue.process import process
from content_pipeline.cli.queue.rebuild import rebuild
from content_pipeline.cli.queue.steer import cancel, discard, resume, retry
from content_pipeline.cli.queue.tidy import check, clear, prune, scrub


@click.group()
def queue() -> None:
    """List, retry, cancel and clean up jobs."""


for command in (status, list_jobs, show, process, retry, cancel, discard, resume, clear, prune, check, scrub, rebuild):
    queue.add_command(command)
