"""`content-ai worker`: carries out the runs that Dagster launches, in warm processes."""

from __future__ import annotations

import os
from functools import partial

import click

from content_pipeline.cli.main import EXIT_FAILURE
from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_error, print_note


@click.command()
@settings_options
def worker(config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> int:
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
    from content_pipeline.launchers.local.run_launcher import drain_supervisor
    from content_pipeline.launchers.local.supervisor import Supervisor

    home = dagster_home(settings)
    os.environ["DAGSTER_HOME"] = str(home)
    make_runs = partial(DagsterRuns, compose=build_definitions)
    supervisor = Supervisor(home, settings, make_runs, LiveProgress(), idle_s=None)
    drain_supervisor(home)  # what one in the background does is finished, or handed over
    print_note(f"Waiting for runs in {home}; Ctrl-C stops.")
    if supervisor.serve(in_place_of_another=True):
        return 0
    print_error("another worker is already running for this state folder", "Stop it first.")
    return EXIT_FAILURE
