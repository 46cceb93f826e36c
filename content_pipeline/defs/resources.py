"""What assets are given: the stage context, opened in the process that runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import dagster as dg

from content_pipeline.dagster_runtime.names import PARTITION_TAG, owner_of
from content_pipeline.dagster_runtime.private_api import planned_assets
from content_pipeline.dagster_runtime.runs import ExecutedRun
from content_pipeline.execution.job_kinds import handler_of_launch
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.run_context import current_run, executing, has_worker
from content_pipeline.execution.self_claimed_run import ClaimedRun, claim_in_run
from content_pipeline.execution.stage_context import open_stage_context
from content_pipeline.launchers.queue_launcher import launch_of
from content_pipeline.settings import Settings
from content_pipeline.settings.run_overrides import RunOverrides
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.video import VideoStages

ONE_RECORDING = "A run is about one recording: choose a single partition, which is the recording's key."


def build_resources(settings: Settings) -> Mapping[str, dg.ResourceDefinition]:
    @dg.resource(description="Settings, artifacts and the manifest.")
    def stage_context(context: dg.InitResourceContext) -> Iterator[StageContext]:
        with _conditions(context, settings) as claimed, executing(claimed.run_context):
            conditions, run = claimed.run_context, context.run
            if run is None:
                yield open_stage_context(claimed.settings, conditions)
                return
            # A job has them in its options already; here they count under any launcher, and without a job.
            overrides = RunOverrides.of(run.run_config)
            if conditions.force_id is None:
                conditions = replace(conditions, force_id=overrides.force_id(run.run_id), forced=overrides.forced)
            yield open_stage_context(overrides.onto(claimed.settings), conditions, run.tags.get(PARTITION_TAG))

    @dg.resource(required_resource_keys={"stage_context"}, description="The stages of the run's video.")
    def video(context: dg.InitResourceContext) -> VideoStages:
        key = None if context.run is None else context.run.tags.get(PARTITION_TAG)
        if key is None:
            raise dg.Failure(ONE_RECORDING, allow_retries=False)
        return VideoStages(context.resources.stage_context, key)

    return {"stage_context": stage_context, "video": video}


@contextmanager
def _conditions(context: dg.InitResourceContext, settings: Settings) -> Iterator[ClaimedRun]:
    """Those that a worker of ours set; of a run that has none, those that it claims by itself."""
    instance, run = context.instance, context.run
    launch = None if has_worker() or instance is None or run is None else _launch(instance, run)
    if instance is None or launch is None or handler_of_launch(launch) is None:
        yield ClaimedRun(current_run(), settings)
        return
    with claim_in_run(launch, settings, ExecutedRun(instance, launch.run_id)) as claimed:
        yield claimed


def _launch(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Launch | None:
    """What this run is about, by the records as they are now: an earlier step may have claimed the job.

    None of a run that has ended: Dagster opens its resources once more, so that its results can be looked at.
    """
    recorded = instance.get_run_by_id(run.run_id)
    now = run if recorded is None else recorded
    if now.is_finished:
        return None
    return replace(launch_of(now), worker=owner_of(now.tags), assets=tuple(planned_assets(instance, now)))
