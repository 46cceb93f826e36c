"""Errors of a stage in Dagster: a transient one is tried again inside the run, a permanent one is not."""

import dagster as dg
import pytest

from content_pipeline.defs.asset_errors import asset_errors, op_retry_policy
from content_pipeline.defs.assets import build_assets
from content_pipeline.errors import CorruptMedia, DiskFull, FileInUse, OutOfMemory
from content_pipeline.execution.reporter import NullReporter
from content_pipeline.execution.run_context import RunContext, executing
from content_pipeline.settings import load
from content_pipeline.stage import STAGES


class Heard(NullReporter):
    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def failed(self, stage: str, error: BaseException) -> None:
        self.failures.append(error)


SOON = load(flags={"queue.step_retry_delay_s": 0.01}, env={}).settings


@pytest.mark.parametrize(
    ("error", "times", "tries", "succeeds"),
    [
        (FileInUse("it changes"), 1, 2, True),
        (FileInUse("it changes"), 2, 3, True),
        (FileInUse("it changes"), 9, 3, False),
        (CorruptMedia("half of it is missing"), 9, 1, False),
        (DiskFull("no room"), 9, 1, False),
        (ValueError("a bug"), 9, 1, False),
        (MemoryError(), 9, 1, False),
    ],
    ids=["passes", "passes late", "does not pass", "permanent", "environmental", "bug", "out of memory"],
)
def test_an_error_is_tried_again_by_its_class(error: Exception, times: int, tries: int, succeeds: bool) -> None:
    seen: list[int] = []
    reporter = Heard()

    @dg.asset(retry_policy=op_retry_policy(SOON))
    def energy(context: dg.AssetExecutionContext) -> None:
        with asset_errors("energy", context):
            seen.append(context.retry_number)
            if len(seen) <= times:
                raise error

    with executing(RunContext(reporter)):
        result = dg.materialize([energy], raise_on_error=False)
    assert (result.success, len(seen)) == (succeeds, tries)
    told = [OutOfMemory if isinstance(error, MemoryError) else type(error)]
    assert [type(one) for one in reporter.failures] == ([] if succeeds else told), "of the last try only, and once"


def test_the_retry_policy_is_the_settings_and_every_asset_has_it() -> None:
    flags = {"queue.step_retries": 5, "queue.step_retry_delay_s": 2}
    wanted = dg.RetryPolicy(5, 2.0, dg.Backoff.EXPONENTIAL, dg.Jitter.PLUS_MINUS)
    assets = build_assets(load(flags=flags, env={}).settings)
    assert {asset.op.name: asset.op.retry_policy for asset in assets} == {
        stage.name: wanted for stage in STAGES if stage.part_of is None
    }
