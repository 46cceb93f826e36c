"""What is done at its hour: in the quiet hours of the night, and once a week."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import dagster as dg

from content_pipeline.defs.jobs import BEST_OF, REPORT
from content_pipeline.defs.maintenance import NIGHTLY_BACKFILL, RETENTION, SCRUB
from content_pipeline.defs.partitions import register_libraries
from content_pipeline.execution.names import CALIBRATE_LIBRARY
from content_pipeline.library.keys import canonical_path
from content_pipeline.manifest.open import open_manifest
from content_pipeline.media.selection.tuning import target_of
from content_pipeline.settings import Settings

SUNDAY = "0"
# Two nights before the best-of: the night between brings up to date what a calibration changed.
FRIDAY = "5"
EVERY_DAY = "*"


def build_schedules(settings: Settings, current: Callable[[], Settings]) -> Sequence[dg.ScheduleDefinition]:
    return [
        _plain(settings, NIGHTLY_BACKFILL, EVERY_DAY, "Brings videos up to date that are stale, in the quiet hours."),
        _plain(settings, RETENTION, EVERY_DAY, "Deletes old history, unused artifacts and logs, every night."),
        _plain(settings, SCRUB, SUNDAY, "Reads a share of the recordings again, every Sunday night."),
        _hourly_report(settings, current),
        _weekly_calibration(settings, current),
        _weekly_best_of(settings, current),
    ]


def _cron(settings: Settings, day: str) -> str:
    """When the quiet hours begin."""
    hour, _, minute = settings.schedule.quiet_hours.partition("-")[0].partition(":")
    return f"{int(minute)} {int(hour)} * * {day}"


def _plain(settings: Settings, job_name: str, day: str, description: str) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=f"{job_name}_schedule",
        job_name=job_name,
        cron_schedule=_cron(settings, day),
        execution_timezone=settings.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )


def _hourly_report(settings: Settings, current: Callable[[], Settings]) -> dg.ScheduleDefinition:
    @dg.schedule(
        name="hourly_report",
        job_name=REPORT,
        cron_schedule="30 * * * *",  # half an hour into the quiet hours, when the plan of the night is made
        execution_timezone=settings.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Reports what is out of date in every watched library. Reads no recording: it takes seconds.",
    )
    def hourly_report(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        yield from _one_run_each(context, current(), "%Y-%m-%dT%H")

    return hourly_report


def _weekly_best_of(settings: Settings, current: Callable[[], Settings]) -> dg.ScheduleDefinition:
    @dg.schedule(
        name="weekly_best_of",
        job_name=BEST_OF,
        cron_schedule=_cron(settings, SUNDAY),
        execution_timezone=settings.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="A best-of of every watched library.",
    )
    def weekly_best_of(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        yield from _one_run_each(context, current())

    return weekly_best_of


def _weekly_calibration(settings: Settings, current: Callable[[], Settings]) -> dg.ScheduleDefinition:
    @dg.schedule(
        name="weekly_calibration",
        job_name=CALIBRATE_LIBRARY,
        cron_schedule=_cron(settings, FRIDAY),
        execution_timezone=settings.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Calibrates every watched library, if the settings name a target.",
    )
    def weekly_calibration(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        now = current()
        if target_of(now.calibration) is None:
            yield dg.SkipReason("No target is set: set `calibration.montage_s` or `calibration.per_hour`.")
            return
        yield from _one_run_each(context, now)

    return weekly_calibration


def _one_run_each(
    context: dg.ScheduleEvaluationContext, settings: Settings, period: str = "%G-%V"
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """A run of this week, or of another period, for every watched library."""
    watched = {canonical_path(folder) for folder in settings.library.folders}
    libraries = [root for root in open_manifest(settings).libraries.roots() if root in watched]
    if not libraries:
        yield dg.SkipReason("No watched library has videos yet.")
        return
    for key in register_libraries(context.instance, libraries):
        yield dg.RunRequest(run_key=f"{key}:{context.scheduled_execution_time:{period}}", partition_key=key)
