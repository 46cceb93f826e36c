"""Where a stage meets Dagster: errors get their class, results their data version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.errors import OutOfMemory, PipelineError, RetryPolicy, named, printable
from content_pipeline.execution.reporter import Reporter
from content_pipeline.execution.run_context import current_run
from content_pipeline.stage import StageName
from content_pipeline.stages.context import StageResult
from content_pipeline.stages.cost import Meter

# What may pass is tried again here first, a little later; what remains after that is the manifest's to retry.
# Given to no op: under Dagster's own rule a run that is terminated would be retried, too.
RETRIES = dg.RetryPolicy(max_retries=2, delay=1.0, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)


@contextmanager
def boundary(stage: StageName, context: dg.AssetExecutionContext) -> Iterator[Meter]:
    """Turn an error with a name into a retry, or a Dagster failure that says what to do."""
    reporter = current_run().reporter
    reporter.progressed(stage, 0.0)
    try:
        yield Meter()
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


def materialized(
    context: dg.AssetExecutionContext,
    result: StageResult,
    metadata: Mapping[str, Any],
    meter: Meter,
    checks: tuple[dg.AssetCheckResult, ...] = (),
    config_hash: str | None = None,
) -> dg.MaterializeResult:
    cost = meter.spent()
    current_run().reporter.finished(result, cost, config_hash)
    # Given with the result, Dagster would keep it twice: with the step's output, and with the materialization.
    context.add_asset_metadata(
        {"reused": result.reused, "seconds": cost["wall_s"], "cpu_s": cost["cpu_s"], **metadata},
    )
    return dg.MaterializeResult(data_version=dg.DataVersion(result.key), check_results=checks)


def picture(name: str, path: Path, alt: str) -> dict[str, dg.MetadataValue]:
    """A picture so small that Dagster can keep it with every run, and where the whole one is."""
    import base64

    from content_pipeline.media.preview import thumbnail

    small = base64.b64encode(thumbnail(path.read_bytes())).decode()
    return {
        name: dg.MetadataValue.md(f"![{alt}](data:image/webp;base64,{small})"),
        f"{name}_file": dg.MetadataValue.path(printable(path)),
    }
