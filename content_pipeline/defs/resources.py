"""What assets are given: the stage context, opened in the process that runs them."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from content_pipeline.dagster_runtime.names import PARTITION_TAG
from content_pipeline.execution.run_context import current_run
from content_pipeline.execution.stage_context import open_stage_context
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.video import VideoStages


def build_resources(settings: Settings) -> Mapping[str, dg.ResourceDefinition]:
    @dg.resource(description="Settings, artifacts and the manifest.")
    def stage_context(context: dg.InitResourceContext) -> StageContext:
        run = context.run
        return open_stage_context(settings, current_run(), None if run is None else run.tags.get(PARTITION_TAG))

    @dg.resource(required_resource_keys={"stage_context"}, description="The stages of the run's video.")
    def video(context: dg.InitResourceContext) -> VideoStages:
        assert context.run is not None
        return VideoStages(context.resources.stage_context, context.run.tags[PARTITION_TAG])

    return {"stage_context": stage_context, "video": video}
