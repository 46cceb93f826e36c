"""`content-ai worker`: carries out the runs that Dagster launches, in warm processes."""

from __future__ import annotations

import os
from functools import partial

import click

from content_pipeline.cli.main import EXIT_FAILURE
from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_error, print_note
from content_pipeline.errors import BadSettings
from content_pipeline.settings import Settings
from content_pipeline.settings.value_types import split_commas


@click.command()
@click.option(
    "--engine",
    type=click.Choice(["local", "rq"]),
    help="`rq`: take runs from Redis, on any host [launcher.engine].",
)
@click.option(
    "--kinds", help="With `rq`: what to take, such as `processing,other` [all: processing, calibration, other]."
)
@click.option(
    "--capabilities", help="What this machine can do, for jobs that require it: `nvenc,fast-disk` [queue.capabilities]."
)
@settings_options
def worker(
    engine: str | None,
    kinds: str | None,
    capabilities: str | None,
    config_file: str | None,
    state_dir: str | None,
    assignments: tuple[str, ...],
) -> int:
    """Execute the runs that Dagster launches, until stopped.

    A background worker starts automatically when it is needed; this one replaces it and shows its progress. When asked
    to stop (SIGTERM, Ctrl-C), it takes no new work, gives running jobs time to finish, and returns the others to the
    queue.

    With the engine `rq` nothing starts by itself: start one worker on each host. It takes as many runs at a time as
    `workers` says.
    """

    def current() -> Settings:
        flags = {"launcher.engine": engine, "queue.capabilities": capabilities}
        return resolve(config_file, state_dir, assignments, flags).settings

    settings = current()
    from content_pipeline.dagster_runtime.instance import dagster_home

    home = dagster_home(settings)
    os.environ["DAGSTER_HOME"] = str(home)
    if settings.launcher.engine == "local":
        if kinds is not None:
            raise BadSettings("`--kinds` is for the engine `rq`; a local worker takes every run")
        if capabilities is not None:
            raise BadSettings("`--capabilities` is for the engine `rq`; with `local` set `queue.capabilities`")
        return _work_here(settings)
    from content_pipeline.cli.live import LiveProgress
    from content_pipeline.dagster_runtime.runs import DagsterRuns
    from content_pipeline.definitions import build_definitions
    from content_pipeline.launchers.rq.worker import RqWorker

    chosen = _kinds(kinds)
    make_runs = partial(DagsterRuns, compose=build_definitions)
    rq_worker = RqWorker(settings, current, make_runs, LiveProgress(), chosen)
    taken = ", ".join([*chosen, *(f"what requires {name}" for name in settings.queue.capabilities)])
    print_note(f"Waiting for runs ({taken}) at {settings.redis_url}; Ctrl-C stops.")
    rq_worker.serve()
    return 0


def _kinds(given: str | None) -> tuple[str, ...]:
    from content_pipeline.launchers.rq.announcements import KINDS

    chosen = KINDS if given is None else tuple(split_commas(given))
    unknown = [kind for kind in chosen if kind not in KINDS]
    if unknown or not chosen:
        raise BadSettings(f"`--kinds` {given!r}: choose of {', '.join(KINDS)}")
    return chosen


def _work_here(settings: Settings) -> int:
    from content_pipeline.cli.live import LiveProgress
    from content_pipeline.dagster_runtime.instance import dagster_home
    from content_pipeline.dagster_runtime.runs import DagsterRuns
    from content_pipeline.definitions import build_definitions
    from content_pipeline.launchers.local.run_launcher import drain_supervisor
    from content_pipeline.launchers.local.supervisor import Supervisor

    home = dagster_home(settings)
    make_runs = partial(DagsterRuns, compose=build_definitions)
    supervisor = Supervisor(home, settings, make_runs, LiveProgress(), idle_s=None)
    drain_supervisor(home)  # what one in the background does is finished, or handed over
    print_note(f"Waiting for runs in {home}; Ctrl-C stops.")
    if supervisor.serve(in_place_of_another=True):
        return 0
    print_error("another worker is already running for this state folder", "Stop it first.")
    return EXIT_FAILURE
