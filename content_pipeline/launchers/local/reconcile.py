"""Making Dagster's records, the manifest and the processes that live agree again."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.dagster_runtime.manifest_rebuild import rebuild
from content_pipeline.execution.manifest_identity import database_of
from content_pipeline.execution.rescue import rescue_orphans
from content_pipeline.launchers.launch_queue import has_work_for
from content_pipeline.launchers.local.abandoned_runs import adopt, close_abandoned
from content_pipeline.launchers.local.folder_launch_queue import FolderLaunchQueue
from content_pipeline.launchers.local.supervisor_lock import SupervisorLock
from content_pipeline.launchers.local.supervisor_process import IDLE_S, ensure_supervisor
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import Settings

REBUILD_BUDGET_S = 20.0


def reconcile(settings: Settings, instance: dg.DagsterInstance) -> dict[str, int]:
    """What was mended, counted."""
    manifest = open_manifest(settings)
    rescued = rescue_orphans(manifest)
    home = Path(instance.root_directory)
    launch_queue = FolderLaunchQueue(home)
    # One that was started goes on with another worker; one that never was would only be in the way.
    closed = close_abandoned(instance, launch_queue, manifest, [dg.DagsterRunStatus.NOT_STARTED])
    adopted = adopt(instance, launch_queue)
    orphaned = len(launch_queue.run_ids()) if SupervisorLock(home).holder() is None else 0
    if has_work_for(launch_queue, database_of(settings)):
        ensure_supervisor(home, getattr(instance.run_launcher, "idle_s", IDLE_S))
    swept = ArtifactStore(settings.state_dir.absolute() / "artifacts").sweep()
    rebuilt = rebuild(instance, manifest, REBUILD_BUDGET_S)
    return {
        "jobs rescued": len(rescued),
        "runs closed": closed,
        "runs adopted": adopted,
        "runs without a supervisor": orphaned,
        "drafts swept": swept,
        "videos rebuilt": rebuilt.videos,
        "jobs rebuilt": rebuilt.jobs,
    }
