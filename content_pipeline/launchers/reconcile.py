"""Making Dagster's records, the manifest and the processes that live agree again."""

from __future__ import annotations

import dagster as dg

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.dagster_runtime.manifest_rebuild import rebuild
from content_pipeline.execution.manifest_identity import database_of
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.launchers.abandoned_runs import UNFINISHED, adopt, close_abandoned
from content_pipeline.launchers.configured_launcher import expect_engine
from content_pipeline.launchers.launch_queue import has_work_for
from content_pipeline.launchers.queue_launcher import QueueRunLauncher, launcher_of
from content_pipeline.manifest.open import open_manifest
from content_pipeline.publishing.publish import recover_outputs
from content_pipeline.settings import Settings

REBUILD_BUDGET_S = 20.0


def reconcile(settings: Settings, instance: dg.DagsterInstance) -> dict[str, int]:
    """What was mended, counted."""
    manifest = open_manifest(settings)
    rescued = rescue_orphans(manifest)
    launcher = launcher_of(instance)
    expect_engine(settings, launcher)
    # With our launcher one that was started goes on with another worker; one that never was would only be in the way.
    # Under Dagster's own launcher nobody goes on with a run: its job gets another.
    ended = [*UNFINISHED, dg.DagsterRunStatus.CANCELING] if launcher is None else [dg.DagsterRunStatus.NOT_STARTED]
    closed = close_abandoned(instance, manifest, ended)
    adopted, orphaned = (0, 0) if launcher is None else _see_to_launches(settings, instance, launcher)
    swept = ArtifactStore(settings.state_dir.absolute() / "artifacts").sweep()
    rebuilt = rebuild(instance, manifest, REBUILD_BUDGET_S)
    # Last, for a network share that hangs must not keep the rest waiting.
    returned = recover_outputs(manifest.publications, [settings.output_dir])
    return {
        "jobs rescued": len(rescued),
        "runs closed": closed,
        "runs adopted": adopted,
        "runs without a supervisor": orphaned,
        "drafts swept": swept,
        "videos rebuilt": rebuilt.videos,
        "jobs rebuilt": rebuilt.jobs,
        "files returned to their names": len(returned),
    }


def _see_to_launches(settings: Settings, instance: dg.DagsterInstance, launcher: QueueRunLauncher) -> tuple[int, int]:
    """How many launched runs were in no queue, and how many of the queue had nobody to execute them."""
    launch_queue = launcher.launch_queue
    adopted = adopt(instance, launch_queue)
    orphaned = 0 if launcher.has_workers() else len(launch_queue.run_ids())
    if has_work_for(launch_queue, database_of(settings)):
        launcher.start_workers()
    return adopted, orphaned
