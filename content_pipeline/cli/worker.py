"""`content-ai worker`: carries out the runs that Dagster launches, in warm processes."""

from __future__ import annotations

import os
from functools import partial

import click

from content_pipeline.cli.main import EXIT_FAILURE
from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_error, print_note


@click.command()
@click.option("--background", is_flag=True, hidden=True, help="Started by the launcher: silent, and gone when idle.")
@click.option("--idle-seconds", type=float, default=300.0, hidden=True)
@settings_options
def worker(
    background: bool,
    idle_seconds: float,
    config_file: str | None,
    state_dir: str | None,
    assignments: tuple[str, ...],
) -> int:
    """Execute the runs that Dagster launches, until stopped.

    A background worker starts automatically when it is needed; this one replaces it and shows its progress. When asked
    to stop (SIGTERM, Ctrl-C), it takes no new work, gives running jobs time to finish, and returns the others to the
    queue.
    """
    settings = resolve(config_file, state_dir, assignments).settings
    from content_pipeline.cli.live import LiveProgress
    from content_pipeline.dagster_runtime.instance import dagster_home
    from content_pipeline.dagster_runtime.runs import DagsterRuns
    from content_pipeline.definitions import build_definitions
    from content_pipeline.execution.manifest_identity import manifest_identity
    from content_pipeline.launchers.local.supervisor import Supervisor
    from content_pipeline.launchers.local.supervisor_process import drain_supervisor, is_outdated

    home = dagster_home(settings)
    os.environ["DAGSTER_HOME"] = str(home)
    watcher = LiveProgress(quiet=background)
    make_runs = partial(DagsterRuns, compose=build_definitions)
    supervisor = Supervisor(home, settings, make_runs, watcher, idle_seconds if background else None)
    in_place_of_another = not background or is_outdated(home, manifest_identity(settings))
    if in_place_of_another:  # what it does is finished, or handed over
        drain_supervisor(home)
    if not background:
        print_note(f"Waiting for runs in {home}; Ctrl-C stops.")
    if supervisor.serve(in_place_of_another):
        return 0
    if background:
        return 0  # another one was first, and sees to the same launches
    print_error("another worker is already running for this state folder", "Stop it first.")
    return EXIT_FAILURE
