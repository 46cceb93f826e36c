"""What assets are given: the stage context, opened in the process that runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import dagster as dg

from content_pipeline.dagster_runtime.names import PARTITION_TAG
from content_pipeline.execution.run_context import current_run
from content_pipeline.execution.stage_context import open_stage_context
from content_pipeline.settings import Settings
from content_pipeline.settings.run_overrides import RunOverrides
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.video import VideoStages


def build_resources(settings: Settings) -> Mapping[str, dg.ResourceDefinition]:
    @dg.resource(description="Settings, artifacts and the manifest.")
    def stage_context(context: dg.InitResourceContext) -> StageContext:
        run, conditions = context.run, current_run()
        if run is None:
            return open_stage_context(settings, conditions)
        # A job has them in its options already; here they count under any launcher, and without a job.
        overrides = RunOverrides.of(run.run_config)
        if conditions.force_id is None:
            conditions = replace(conditions, force_id=overrides.force_id(run.run_id), forced=overrides.forced)
        return open_stage_context(overrides.onto(settings), conditions, run.tags.get(PARTITION_TAG))

    @dg.resource(required_resource_keys={"stage_context"}, description="The stages of the run's video.")
    def video(context: dg.InitResourceContext) -> VideoStages:
        assert context.run is not None
        return VideoStages(context.resources.stage_context, context.run.tags[PARTITION_TAG])

    return {"stage_context": stage_context, "video": video}
