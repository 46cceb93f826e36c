"""Maintenance jobs: enqueue videos that are out of date, delete old history, read recordings again to find changes."""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg
from pydantic import Field

from content_pipeline.dagster_runtime.names import BACKFILL_NOW_PRIORITY, BACKFILL_PRIORITY
from content_pipeline.defs.sensors.dispatch_jobs import is_quiet
from content_pipeline.errors import counted, printable
from content_pipeline.execution.run_context import current_run
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services import upkeep
from content_pipeline.services.planner import backfill
from content_pipeline.settings import Settings

NIGHTLY_BACKFILL, BACKFILL_STALE = "nightly_backfill", "backfill_stale"
RETENTION, SCRUB = "retention", "scrub_recordings"
_MAINTENANCE = {"subject": "maintenance"}


def build_maintenance_jobs(settings: Settings) -> Sequence[dg.JobDefinition]:
    return [_nightly_backfill(settings), _backfill_stale(settings), _retention(settings), _scrub(settings)]


class BackfillConfig(dg.Config):
    """`now`: at once, behind new recordings; else in the quiet hours."""

    now: bool = Field(default=True, description="Start at once. Otherwise the videos wait for the quiet hours.")


class NightlyConfig(BackfillConfig):
    now: bool = Field(default=False, description="Start at once. Otherwise the videos wait for the quiet hours.")


def _nightly_backfill(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def enqueue_stale_videos_for_the_night(context: dg.OpExecutionContext, config: NightlyConfig) -> None:
        """Plans every watched folder, and enqueues what is out of date."""
        _enqueue_stale(settings, context, config.now)

    @dg.job(
        name=NIGHTLY_BACKFILL,
        tags=_MAINTENANCE,
        description="Enqueues videos that are out of date after a change of settings or code. They are done in the "
        "quiet hours, and show under Runs > Backfills from then on.",
    )
    def nightly_backfill() -> None:
        enqueue_stale_videos_for_the_night()

    return nightly_backfill


def _backfill_stale(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def enqueue_stale_videos(context: dg.OpExecutionContext, config: BackfillConfig) -> None:
        """Plans every watched folder, and enqueues what is out of date."""
        _enqueue_stale(settings, context, config.now)

    @dg.job(
        name=BACKFILL_STALE,
        tags=_MAINTENANCE,
        description="To be launched by hand: brings every video up to date that is stale now, behind new recordings. "
        "With `now: false` it waits for the quiet hours. Its runs show under Runs > Backfills.",
    )
    def backfill_stale() -> None:
        enqueue_stale_videos()

    return backfill_stale


def _enqueue_stale(settings: Settings, context: dg.OpExecutionContext, now: bool) -> None:
    priority = BACKFILL_NOW_PRIORITY if now else BACKFILL_PRIORITY
    folders = backfill(settings, open_manifest(settings), priority)
    for folder in folders:
        if folder.error is not None:
            context.log.warning(f"{printable(folder.folder)}: {folder.error} {folder.hint}")
        else:
            context.log.info(f"{printable(folder.folder)}: {folder.enqueued} of {folder.videos} videos to be done")
    context.log.info(_when(settings, sum(folder.enqueued for folder in folders), now))


def _when(settings: Settings, videos: int, now: bool) -> str:
    if not videos:
        return "Everything is up to date."
    shown = "Runs > Backfills shows them a few seconds after the first run began"
    if now or is_quiet(settings.schedule, datetime.now(UTC)):
        return f"{counted(videos, 'video')} will be done now, a few at a time. {shown}."
    hours = f"{settings.schedule.quiet_hours} {settings.schedule.timezone}"
    return (
        f"{counted(videos, 'video')} will wait for the quiet hours ({hours}), as asked. {shown}. "
        f"To have them done at once, launch {BACKFILL_STALE} with `now: true`."
    )


def _retention(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def forget_old_history(context: dg.OpExecutionContext) -> None:
        alive = current_run().reporter.alive
        pruned = upkeep.prune_with_runs(settings, open_manifest(settings), context.instance, alive=alive)
        context.log.info(", ".join(f"{count} {what}" for what, count in pruned) + " removed")

    @dg.job(name=RETENTION, tags=_MAINTENANCE, description="Deletes old history, unused artifacts and logs.")
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
        tags=_MAINTENANCE,
        description="Reads a share of the recordings in full, to find changes that size and times do not show.",
    )
    def scrub_recordings() -> None:
        read_again()

    return scrub_recordings
