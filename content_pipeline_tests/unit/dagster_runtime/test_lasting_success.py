"""A run that has succeeded stays so in Dagster's records, in both databases; one that failed may still be mended."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.settings import load
from content_pipeline_tests.conformance import postgres


@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
def test_nothing_that_is_said_later_undoes_a_success(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTENT_AI_DAGSTER_STORAGE", storage)
    if storage == "postgres":
        monkeypatch.setenv("CONTENT_AI_DB", postgres.server().url(postgres.server().create()))

    @dg.job
    def nothing() -> None:
        pass

    with open_instance(load().settings) as instance:
        assert nothing.execute_in_process(instance=instance, run_id="00000000-0000-4000-8000-000000000001").success
        (run,) = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.SUCCESS
        instance.report_run_failed(run, "said by a process that was cut off")
        instance.report_run_canceled(run, "and again")
        (after,) = instance.get_runs()
        assert after.status is dg.DagsterRunStatus.SUCCESS
        failed = instance.create_run_for_job(nothing)
        instance.report_run_failed(failed, "no")
        found = instance.get_run_by_id(failed.run_id)
        assert found is not None and found.status is dg.DagsterRunStatus.FAILURE
