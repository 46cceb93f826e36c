"""The kinds of jobs: one handler each, and the registry that everything else asks. No `if kind is ...` elsewhere.

A new kind takes four files:

1. `execution/job_kinds/<kind>.py`: a class with everything that `handler.JobKindHandler` asks for. To the manifest a
   kind is any text.
2. An instance of it in `HANDLERS` below.
3. Its stages in `stage.py`.
4. `defs/assets/<stage>.py`: what Dagster shows of a stage.

Its Dagster job and sensor, claiming, leases, retries, rescue, cancelling, pruning and `content-ai queue` follow by
themselves.
"""

from __future__ import annotations

from content_pipeline.execution.job_kinds.calibration import CalibrationHandler
from content_pipeline.execution.job_kinds.handler import JobKindHandler as JobKindHandler
from content_pipeline.execution.job_kinds.processing import ProcessingHandler
from content_pipeline.execution.launch import Launch

PROCESSING = ProcessingHandler()
CALIBRATION = CalibrationHandler()

HANDLERS: tuple[JobKindHandler, ...] = (PROCESSING, CALIBRATION)

_BY_KIND = {handler.kind: handler for handler in HANDLERS}


def handler_of(kind: str) -> JobKindHandler:
    return _BY_KIND[kind]


def handler_of_launch(launch: Launch) -> JobKindHandler | None:
    """The kind of job that a run works on; None for a run that is about no job."""
    if launch.partition_key is None:
        return None
    for handler in HANDLERS:
        if launch.job_name == handler.dagster_job or set(launch.assets) & set(handler.stages):
            return handler
    return None


def video_kinds() -> frozenset[str]:
    """The kinds whose old jobs are forgotten when their recording is gone."""
    return frozenset(handler.kind for handler in HANDLERS if handler.goes_with_file)
