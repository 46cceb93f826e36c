"""What a run of Dagster asks of a worker, as a launch."""

from __future__ import annotations

import os
import time
from pathlib import Path

import dagster as dg

from content_pipeline.dagster_runtime.names import PARTITION_TAG, PRIORITY_TAG, job_tag_of, owner_of
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.manifest_identity import current_database
from content_pipeline.settings import CONFIG_FILE_NAME, ENV_PREFIX
from content_pipeline.settings.value_types import expand_home

DB_VARIABLE = f"{ENV_PREFIX}DB"
EXECUTED_BEFORE = "another worker, before"


def launch_of(run: dg.DagsterRun) -> Launch:
    """Settings reach the worker the way they reached the process that launches; the password does not."""
    environment = {
        name: value for name, value in os.environ.items() if name.startswith(ENV_PREFIX) and name != DB_VARIABLE
    }
    config = expand_home(Path(environment.get(f"{ENV_PREFIX}CONFIG", CONFIG_FILE_NAME))).absolute()
    if config.exists():
        environment[f"{ENV_PREFIX}CONFIG"] = str(config)
    return Launch(
        run_id=run.run_id,
        job_name=run.job_name,
        partition_key=run.tags.get(PARTITION_TAG),
        job_tag=job_tag_of(run.tags),
        worker=EXECUTED_BEFORE if run.status is dg.DagsterRunStatus.STARTED else owner_of(run.tags),
        assets=tuple(sorted(key.to_user_string() for key in run.asset_selection or ())),
        priority=int(run.tags.get(PRIORITY_TAG, "0")),
        launched_at=time.time(),
        environment=environment,
        database=current_database(),
        folder=str(Path.cwd()),
    )
