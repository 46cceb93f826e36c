"""`content-ai worker` works; with the name of a command after it, it does that instead: `content-ai worker list`."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from content_pipeline.cli.worker import worker as work
from content_pipeline.cli.worker_list import list_workers


@click.pass_context
def _work_or_not(context: click.Context, /, **given: Any) -> Any:
    if context.invoked_subcommand is None:
        assert work.callback is not None
        return work.callback(**given)
    if any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in given):
        raise click.UsageError(f"write options after the command: worker {context.invoked_subcommand} ...")
    return None


worker = click.Group(
    "worker",
    callback=_work_or_not,
    params=list(work.params),
    help=work.help,
    invoke_without_command=True,
    commands=[list_workers],
)
