"""How the error of a stage becomes one of Dagster: left to the retry policy, or a failure that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import dagster as dg

from content_pipeline.dagster_runtime.private_api import end_as_cancelled
from content_pipeline.errors import OutOfMemory, PipelineError, RetryPolicy, code_of, named
from content_pipeline.execution.run_context import current_run
from content_pipeline.execution.self_claimed_run import JobStopped
from content_pipeline.failpoints import failpoint
from content_pipeline.settings import Settings
from content_pipeline.stage import StageName
from content_pipeline.stages.cost import Meter


def op_retry_policy(settings: Settings) -> dg.RetryPolicy:
    """Transient errors are retried inside the run first, a little later. After that the manifest retries the job."""
    return dg.RetryPolicy(
        max_retries=settings.queue.step_retries,
        delay=settings.queue.step_retry_delay_s,
        backoff=dg.Backoff.EXPONENTIAL,
        jitter=dg.Jitter.PLUS_MINUS,
    )


@contextmanager
def asset_errors(stage: StageName, context: dg.AssetExecutionContext) -> Iterator[Meter]:
    """Around the work of an asset. Yields the meter of what it costs.

    Only a transient error is left to the retry policy. Of it the parent process is told with the last try: a try
    that is followed by another has not failed the attempt.
    """
    run = current_run()
    if run.refusal is not None:
        raise dg.Failure(run.refusal, allow_retries=False)
    try:
        run.reporter.progressed(stage, 0.0)
        failpoint(f"{stage}_entered")
        yield Meter()
    except JobStopped as error:
        end_as_cancelled(context.instance, context.run_id, str(error))
    except MemoryError as error:
        _fail(stage, OutOfMemory(f"{stage} ran out of memory"), error)
    except Exception as error:
        known = named(error)
        if not (_is_transient(known) and _has_retries_left(context)):
            _fail(stage, known, error)
        context.log.warning(f"{known} It is retried.")
        if known is error:
            raise
        raise known from error


def _is_transient(error: Exception) -> bool:
    """What has no name is a bug, and the same a second later: the manifest tries it again, in other runs."""
    return isinstance(error, PipelineError) and error.policy is RetryPolicy.TRANSIENT


def _has_retries_left(context: dg.AssetExecutionContext) -> bool:
    policy = context.op_def.retry_policy
    return policy is not None and context.retry_number < policy.max_retries


def _fail(stage: StageName, error: Exception, cause: BaseException) -> NoReturn:
    current_run().reporter.failed(stage, error)
    kind = error if isinstance(error, PipelineError) else PipelineError(f"{type(error).__name__}: {error}")
    raise failure_of(kind) from cause


def failure_of(error: PipelineError) -> dg.Failure:
    """What Dagster shows of an error that no retry inside the run mends."""
    return dg.Failure(
        description=f"{error} {error.hint}",
        metadata={"error_code": code_of(error), "error_policy": error.policy.value, "what_to_do": error.hint},
        allow_retries=False,
    )
