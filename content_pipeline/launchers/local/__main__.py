"""`python -m content_pipeline.launchers.local`: the supervisor as a process of its own, silent, and gone when idle.

Started by `supervisor_process.py`, with the environment of the run's launcher; people use `content-ai worker`.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from functools import partial

from content_pipeline.dagster_runtime.instance import dagster_home
from content_pipeline.dagster_runtime.runs import Compose, DagsterRuns
from content_pipeline.errors import PipelineError
from content_pipeline.execution.manifest_identity import manifest_identity
from content_pipeline.execution.outcome import NullWatcher
from content_pipeline.launchers.local.supervisor import Supervisor
from content_pipeline.launchers.local.supervisor_process import IDLE_S, drain_supervisor, is_outdated
from content_pipeline.settings import load

DEFINITIONS = "content_pipeline.definitions"  # by name, as Dagster loads it: it is composed of what is above launchers


def main() -> int:
    parser = argparse.ArgumentParser(prog="content_pipeline.launchers.local")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_S)
    try:
        supervise(parser.parse_args().idle_seconds)
    except Exception as error:
        if os.environ.get("CONTENT_AI_DEBUG"):
            raise
        message = f"{error} {error.hint}" if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
        logging.getLogger(__name__).error("The supervisor ended: %s", message)
        return 1
    return 0


def supervise(idle_s: float) -> None:
    """Returns when idle or drained, or at once when another supervisor was first: it sees to the same launches."""
    settings = load().settings
    home = dagster_home(settings)
    os.environ["DAGSTER_HOME"] = str(home)
    build_definitions: Compose = importlib.import_module(DEFINITIONS).build_definitions
    supervisor = Supervisor(home, settings, partial(DagsterRuns, compose=build_definitions), NullWatcher(), idle_s)
    in_place_of_another = is_outdated(home, manifest_identity(settings))
    if in_place_of_another:  # what it does is finished, or handed over
        drain_supervisor(home)
    supervisor.serve(in_place_of_another)


if __name__ == "__main__":
    sys.exit(main())
