"""Every private call into Dagster, in one place. Tried on dagster 1.13.27.

A canary test stands behind each: when an upgrade breaks one, it says which.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.events import JobFailureData, RunFailureReason
from dagster._core.execution.api import execute_run_iterator
from dagster._core.origin import DEFAULT_DAGSTER_ENTRY_POINT, JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._utils.interrupts import capture_interrupts

CODE_LOCATION = "content_pipeline"
MODULE = "content_pipeline.definitions"
ATTRIBUTE = "defs"
REPOSITORY = "__repository__"


def create_run(
    instance: dg.DagsterInstance, job: dg.JobDefinition, partition_key: str, tags: Mapping[str, str]
) -> dg.DagsterRun:
    """A run that the UI shows under the code location and can execute again."""
    return instance.create_run_for_job(
        job,
        tags={**tags, "dagster/partition": partition_key},
        remote_job_origin=_remote_origin(job.name),
        job_code_origin=_python_origin(job.name),
        status=dg.DagsterRunStatus.NOT_STARTED,
    )


def execute(instance: dg.DagsterInstance, job: dg.JobDefinition, run: dg.DagsterRun, resume: bool = False) -> None:
    """Execute a created run in this process; its outcome is in the event log. SIGTERM ends it as cancelled."""
    with capture_interrupts():
        for _event in execute_run_iterator(InMemoryJob(job), run, instance, resume_from_failure=resume):
            pass


def report_worker_died(instance: dg.DagsterInstance, run: dg.DagsterRun, why: str) -> None:
    instance.report_run_failed(
        run, why, JobFailureData(error=None, failure_reason=RunFailureReason.UNEXPECTED_TERMINATION)
    )


def _remote_origin(job_name: str) -> RemoteJobOrigin:
    target = LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE, working_directory=str(Path.cwd()))
    location = ManagedGrpcPythonEnvCodeLocationOrigin(loadable_target_origin=target, location_name=CODE_LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), job_name)


def _python_origin(job_name: str) -> JobPythonOrigin:
    repository = RepositoryPythonOrigin(
        executable_path=sys.executable,
        code_pointer=ModuleCodePointer(MODULE, ATTRIBUTE, str(Path.cwd())),
        entry_point=DEFAULT_DAGSTER_ENTRY_POINT,
    )
    return JobPythonOrigin(job_name, repository)
