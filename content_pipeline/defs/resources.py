"""What assets are given: the workbench, opened in the process that runs them."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.videos import VideoStore
from content_pipeline.settings import Settings
from content_pipeline.stages.carrier import Carrier
from content_pipeline.stages.workbench import Workbench


def open_workbench(settings: Settings, carrier: Carrier) -> Workbench:
    return Workbench(
        settings=settings,
        artifacts=ArtifactStore(settings.state_dir.absolute() / "artifacts", settings.queue.lease_s),
        videos=VideoStore(open_engine(settings.manifest_url)),
        progress=carrier.listener.progressed,
        guard=carrier.guard,
        cores=carrier.cores,
        force=carrier.force,
    )


def build_resources(settings: Settings, carrier: Carrier) -> Mapping[str, dg.ResourceDefinition]:
    @dg.resource(description="Settings, artifacts and the manifest.")
    def workbench(_context: dg.InitResourceContext) -> Workbench:
        return open_workbench(settings, carrier)

    return {"workbench": workbench}
