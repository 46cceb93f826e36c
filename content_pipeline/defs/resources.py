"""What assets are given: the stage context, opened in the process that runs them."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from content_pipeline.artifacts import ArtifactStore, Maker
from content_pipeline.dagster_runtime.names import PARTITION_TAG
from content_pipeline.errors import EnvironmentalError
from content_pipeline.execution.names import job_tag, parse_job_tag
from content_pipeline.execution.run_context import RunContext, current_run
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Lease
from content_pipeline.manifest.open import open_in_a_child
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.video import VideoStages


def open_stage_context(settings: Settings, run_context: RunContext, partition_key: str | None = None) -> StageContext:
    """The settings are those of the partition's video: whatever is applied to its library now, not when we started."""
    manifest = open_in_a_child(settings)
    own = settings if partition_key is None else manifest.calibrations.settings_for(settings, partition_key)
    return StageContext(
        settings=own,
        artifacts=ArtifactStore(
            settings.state_dir.absolute() / "artifacts",
            settings.queue.lease_s,
            _maker(run_context.lease, manifest),
        ),
        videos=manifest.videos,
        publications=manifest.publications.under(run_context.lease),
        progress=run_context.reporter.progressed,
        cores=run_context.cores,
        force_id=run_context.force_id,
    )


def _maker(lease: Lease | None, manifest: Manifest) -> Maker:
    """An attempt, by the name of its job: others wait for it while it has its lease."""

    def is_current(attempt: str) -> bool:
        try:
            return manifest.jobs.is_leased(*parse_job_tag(attempt))
        except (EnvironmentalError, ValueError):  # assumed while the manifest cannot be asked
            return True

    return Maker("" if lease is None else job_tag(lease.job_id, lease.claim_number), is_current)


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
