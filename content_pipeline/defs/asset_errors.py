"""How the error of a stage becomes one of Dagster: a retry inside the run, or a failure that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from content_pipeline.dagster_runtime.private_api import end_as_cancelled
from content_pipeline.errors import OutOfMemory, PipelineError, RetryPolicy, named
from content_pipeline.execution.reporter import Reporter
from content_pipeline.execution.run_context import current_run
from content_pipeline.execution.self_claimed_run import JobStopped
from content_pipeline.stage import StageName
from content_pipeline.stages.cost import Meter

# Transient errors are retried inside the run first, a little later. After that the manifest retries the job.
# No op is given this policy: under Dagster's own rule a run that a person terminated would be retried, too.
RETRIES = dg.RetryPolicy(max_retries=2, delay=1.0, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)


@contextmanager
def asset_errors(stage: StageName, context: dg.AssetExecutionContext) -> Iterator[Meter]:
    """Around the work of an asset. Yields the meter of what it costs."""
    run = current_run()
    if run.refusal is not None:
        raise dg.Failure(run.refusal, allow_retries=False)
    reporter = run.reporter
    try:
        reporter.progressed(stage, 0.0)
        yield Meter()
    except JobStopped as error:
        end_as_cancelled(context.instance, context.run_id, str(error))
    except MemoryError as error:
        raise _failure(stage, OutOfMemory(f"{stage} ran out of memory"), reporter) from error
    except Exception as error:
        known = named(error)
        if not isinstance(known, PipelineError):
            reporter.failed(stage, error)
            raise
        if known.policy is RetryPolicy.TRANSIENT and context.retry_number < RETRIES.max_retries:
            context.log.warning(f"{known} It is retried.")
            raise dg.RetryRequested(RETRIES.max_retries, RETRIES.calculate_delay(context.retry_number + 1)) from error
        raise _failure(stage, known, reporter) from error


def _failure(stage: StageName, error: PipelineError, reporter: Reporter) -> dg.Failure:
    reporter.failed(stage, error)
    return dg.Failure(
        description=f"{error} {error.hint}",
        metadata={"error_code": error.code, "error_policy": error.policy.value, "what_to_do": error.hint},
        allow_retries=False,
    )
