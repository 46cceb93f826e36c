"""`content-ai queue`: one file per command; `options` holds what they share."""

from __future__ import annotations

import click

from content_pipeline.cli.queue.cancel import cancel
from content_pipeline.cli.queue.check import check
from content_pipeline.cli.queue.clear import clear
from content_pipeline.cli.queue.discard import discard
from content_pipeline.cli.queue.list import list_jobs
from content_pipeline.cli.queue.process import process
from content_pipeline.cli.queue.prune import prune
from content_pipeline.cli.queue.rebuild import rebuild
from content_pipeline.cli.queue.resume import resume
from content_pipeline.cli.queue.retry import retry
from content_pipeline.cli.queue.scrub import scrub
from content_pipeline.cli.queue.show import show
from content_pipeline.cli.queue.status import status


@click.group()
def queue() -> None:
    """List, retry, cancel and clean up jobs."""


for command in (status, list_jobs, show, process, retry, cancel, discard, resume, clear, prune, check, scrub, rebuild):
    queue.add_command(command)
