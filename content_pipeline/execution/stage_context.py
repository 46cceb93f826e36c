"""The context that stages work with, opened in the process that executes them."""

from __future__ import annotations

from content_pipeline.artifacts import ArtifactStore, Maker
from content_pipeline.errors import EnvironmentalError
from content_pipeline.execution.names import job_tag, parse_job_tag
from content_pipeline.execution.run_context import RunContext
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Lease
from content_pipeline.manifest.open import open_in_a_child
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext


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
        forced=run_context.forced,
    )


def _maker(lease: Lease | None, manifest: Manifest) -> Maker:
    """An attempt, by the name of its job: others wait for it while it has its lease."""

    def is_current(attempt: str) -> bool:
        try:
            return manifest.jobs.is_leased(*parse_job_tag(attempt))
        except (EnvironmentalError, ValueError):  # assumed while the manifest cannot be asked
            return True

    return Maker("" if lease is None else job_tag(lease.job_id, lease.claim_number), is_current)
