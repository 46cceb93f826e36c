"""Errors of a stage in Dagster: a transient one is tried again inside the run, a permanent one is not."""

import dagster as dg
import pytest

from content_pipeline.defs import asset_errors as module
from content_pipeline.defs.asset_errors import asset_errors
from content_pipeline.errors import CorruptMedia, DiskFull, FileInUse, PipelineError
from content_pipeline.execution.reporter import NullReporter
from content_pipeline.execution.run_context import RunContext, executing


class Heard(NullReporter):
    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def failed(self, stage: str, error: BaseException) -> None:
        self.failures.append(error)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRIES", dg.RetryPolicy(max_retries=2, delay=0.01))


@pytest.mark.parametrize(
    ("error", "times", "tries", "succeeds"),
    [
        (FileInUse("it changes"), 1, 2, True),
        (FileInUse("it changes"), 2, 3, True),
        (FileInUse("it changes"), 9, 3, False),
        (CorruptMedia("half of it is missing"), 9, 1, False),
        (DiskFull("no room"), 9, 1, False),
    ],
    ids=["passes", "passes late", "does not pass", "permanent", "environmental"],
)
def test_an_error_is_tried_again_by_its_class(error: PipelineError, times: int, tries: int, succeeds: bool) -> None:
    seen: list[int] = []
    reporter = Heard()

    @dg.asset
    def energy(context: dg.AssetExecutionContext) -> None:
        with asset_errors("energy", context):
            seen.append(context.retry_number)
            if len(seen) <= times:
                raise error

    with executing(RunContext(reporter)):
        result = dg.materialize([energy], raise_on_error=False)
    assert (result.success, len(seen)) == (succeeds, tries)
    assert reporter.failures == ([] if succeeds else [error])
