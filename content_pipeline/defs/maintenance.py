"""Maintenance jobs: enqueue videos that are out of date, delete old history, read recordings again to find changes."""

from collections.abc import Sequence

import dagster as dg

from content_pipeline.dagster_runtime.names import BACKFILL_PRIORITY
from content_pipeline.errors import printable
from content_pipeline.execution.run_context import current_run
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services import upkeep
from content_pipeline.services.planner import backfill
from content_pipeline.settings import Settings

NIGHTLY_BACKFILL, RETENTION, SCRUB = "nightly_backfill", "retention", "scrub_recordings"


def build_maintenance_jobs(settings: Settings) -> Sequence[dg.JobDefinition]:
    return [_nightly_backfill(settings), _retention(settings), _scrub(settings)]


def _nightly_backfill(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def enqueue_dirty_videos(context: dg.OpExecutionContext) -> None:
        """Plans every watched folder; the jobs wait for the quiet hours."""
        for folder in backfill(settings, open_manifest(settings), BACKFILL_PRIORITY):
            if folder.error is not None:
                context.log.warning(f"{printable(folder.folder)}: {folder.error} {folder.hint}")
            else:
                context.log.info(f"{printable(folder.folder)}: {folder.enqueued} of {folder.videos} videos to be done")

    @dg.job(
        name=NIGHTLY_BACKFILL, description="Enqueues videos that are out of date after a change of settings or code."
    )
    def nightly_backfill() -> None:
        enqueue_dirty_videos()

    return nightly_backfill


def _retention(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def forget_old_history(context: dg.OpExecutionContext) -> None:
        alive = current_run().reporter.alive
        pruned = upkeep.prune_with_runs(settings, open_manifest(settings), context.instance, alive=alive)
        context.log.info(", ".join(f"{count} {what}" for what, count in pruned) + " removed")

    @dg.job(name=RETENTION, description="Deletes old history, unused artifacts and logs.")
    def retention() -> None:
        forget_old_history()

    return retention


def _scrub(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def read_again(context: dg.OpExecutionContext) -> None:
        done = upkeep.verify_content(settings, settings.schedule.scrub_share, current_run().reporter.alive)
        for path in done.changed:
            context.log.warning(f"changed, although size and times are the same: {printable(path)}")
        context.log.info(f"{done.read} read, {len(done.changed)} changed, {done.unreadable} unreadable")

    @dg.job(
        name=SCRUB,
        description="Reads a share of the recordings in full, to find changes that size and times do not show.",
    )
    def scrub_recordings() -> None:
        read_again()

    return scrub_recordings
