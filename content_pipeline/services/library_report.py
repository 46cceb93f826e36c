"""What of a library is not up to date: why, since when, and what bringing it up to date would cost.

Planned as `content-ai plan` does it: the folder's file names and times against the manifest. No recording is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from content_pipeline.library.plan import (
    INPUT_CHANGED,
    TIMES_CHANGED,
    Action,
    ExpectedCost,
    LibraryPlan,
    PlannedVideo,
    expected_costs,
)
from content_pipeline.library.recipe import FOLLOWS
from content_pipeline.library.scan import scan
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.staleness import JobAge
from content_pipeline.services.document import Document
from content_pipeline.services.planner import Planner
from content_pipeline.services.recordings import output_ownership
from content_pipeline.settings import Settings
from content_pipeline.stage import VIDEO_STAGES

if TYPE_CHECKING:
    import pandas as pd

_NOBODY = JobAge("", None)


class Standing(StrEnum):
    STALE = "stale"  # made once, and no longer what the settings, the file or its outputs ask for
    NEW = "new"  # never processed
    WAITING = "waiting"  # enqueued or running, and not made before
    RETRY = "retry"  # failed, and what it failed on has changed
    FAILED = "failed"  # failed: a person's turn
    STOPPED = "stopped"  # cancelled or discarded by a person


class SinceFrom(StrEnum):
    """How it is known since when a video is stale."""

    FILE = "the file's own time"
    MARKED = "when a plan marked it"
    REPORT = "the first report that saw it"


class ReportedVideo(Document):
    """`in_sync_at`: its last success on record. `cause`: `why`, without what differs from video to video."""

    path: str
    job_id: str | None
    key: str | None
    standing: Standing
    why: str
    cause: str
    stages: tuple[str, ...]
    in_sync_at: datetime | None
    stale_since: datetime | None
    since_from: SinceFrom | None
    expected_wall_s: float | None
    expected_cpu_s: float | None
    size_bytes: int


class LibraryReport(Document):
    """Everything that is not up to date. `gone` and `offline` are known videos whose file was not found."""

    library: str
    made_at: datetime
    videos: int
    up_to_date: int
    gone: int
    offline: int
    reported: tuple[ReportedVideo, ...]

    def counts(self) -> dict[str, int]:
        found = Counter(video.standing for video in self.reported)
        return {str(standing): found[standing] for standing in Standing}

    @property
    def stale(self) -> tuple[ReportedVideo, ...]:
        return tuple(video for video in self.reported if video.standing is Standing.STALE)

    def table(self) -> pd.DataFrame:
        """One row for each video that is not up to date, those that have been stale the longest first."""
        import pandas as pd

        rows = [video.model_dump() for video in self.reported]
        table = pd.DataFrame(rows, columns=list(ReportedVideo.model_fields))
        table = table.assign(stages=table["stages"].map(" ".join))
        for name in ("in_sync_at", "stale_since"):
            table[name] = pd.to_datetime(table[name], utc=True)
        for name in ("expected_wall_s", "expected_cpu_s"):  # all of them may be unknown
            table[name] = pd.to_numeric(table[name])
        order = {str(standing): number for number, standing in enumerate(Standing)}
        ranked = table.assign(rank=table["standing"].map(lambda one: order[str(one)]))
        ranked = ranked.sort_values(["rank", "stale_since", "path"], na_position="last", kind="stable")
        return ranked.drop(columns="rank").reset_index(drop=True)

    def causes(self) -> pd.DataFrame:
        """Of the stale videos: how many there are by cause, and what they would cost together, as far as that is known.

        NaN: nothing is known, because too little was done here so far.
        """
        table = self.table()
        stale = table[table["standing"] == Standing.STALE]
        by_cause = stale.groupby("cause", sort=False)
        counts = by_cause.agg(videos=("path", "count"), bytes=("size_bytes", "sum"))
        costs = by_cause[["expected_cpu_s", "expected_wall_s"]].sum(min_count=1)
        costs = costs.rename(columns={"expected_cpu_s": "cpu_s", "expected_wall_s": "wall_s"})
        causes = counts.join(costs).reset_index()
        return causes.sort_values("videos", ascending=False, kind="stable").reset_index(drop=True)


def make_report(
    settings: Settings, root: Path, manifest: Manifest, seen_before: Mapping[str, datetime], now: datetime
) -> LibraryReport:
    """`seen_before`: since when the last report knew jobs to be stale, by job id."""
    found = scan(root, settings.library, output_ownership(settings, manifest))
    planned = Planner(settings, manifest).plan(found)
    return report_of(planned, manifest.jobs.ages_under(root), manifest.jobs.recent_costs(), seen_before, now)


def report_of(
    planned: LibraryPlan,
    ages: Mapping[str, JobAge],
    costs: Sequence[Mapping[str, object]],
    seen_before: Mapping[str, datetime],
    now: datetime,
) -> LibraryReport:
    """Pure: the plan, as people are told of it."""
    due = [_with_reasons(video, ages) for video in planned.videos if video.action is not Action.KEEP]
    expected = expected_costs(due, costs)
    return LibraryReport(
        library=str(planned.root),
        made_at=now,
        videos=len(planned.videos),
        up_to_date=len(planned.videos) - len(due),
        gone=len(planned.gone),
        offline=len(planned.offline),
        reported=tuple(_reported(video, ages, expected.get(video.found.path), seen_before, now) for video in due),
    )


def _age(video: PlannedVideo, ages: Mapping[str, JobAge]) -> JobAge:
    return _NOBODY if video.job is None else ages.get(video.job.job_id, _NOBODY)


def _with_reasons(video: PlannedVideo, ages: Mapping[str, JobAge]) -> PlannedVideo:
    """Of a dirty job, which only waits by now: the reasons that it was marked with."""
    marked = _age(video, ages).dirty_reason
    if marked is None:
        return video
    pairs = (part.partition(": ") for part in marked.split("; "))
    reasons: dict[str, str] = {stage: why for stage, _, why in pairs if stage in VIDEO_STAGES}
    return video._replace(reasons=reasons if reasons else dict.fromkeys(video.reasons, marked))


def _reported(
    video: PlannedVideo,
    ages: Mapping[str, JobAge],
    expected: ExpectedCost | None,
    seen_before: Mapping[str, datetime],
    now: datetime,
) -> ReportedVideo:
    age, standing = _age(video, ages), _standing(video)
    why = _why(video)
    is_stale = standing is Standing.STALE
    since, since_from = _since(video, age, seen_before, now) if is_stale else (None, None)
    return ReportedVideo(
        path=str(video.found.path),
        job_id=None if video.job is None else video.job.job_id,
        key=None if video.job is None else video.job.video_key,
        standing=standing,
        why=why,
        cause=re.sub(r": /.*", "", why),
        stages=tuple(video.reasons),
        in_sync_at=age.succeeded_at,
        stale_since=since,
        since_from=since_from,
        expected_wall_s=None if expected is None else round(expected.wall_s, 2),
        expected_cpu_s=None if expected is None else round(expected.cpu_s, 2),
        size_bytes=video.found.signature.size_bytes,
    )


def _why(video: PlannedVideo) -> str:
    if video.note:
        return video.why
    causes = dict.fromkeys(why for why in video.reasons.values() if not why.startswith(FOLLOWS))
    return "; ".join(causes)


def _standing(video: PlannedVideo) -> Standing:
    status = None if video.job is None else video.job.status
    match video.action:
        case Action.CREATE:
            return Standing.NEW
        case Action.REDO:
            return Standing.STALE
        case Action.RETRY:
            return Standing.RETRY
        case Action.WAIT:
            return Standing.STALE if status is State.DIRTY else Standing.WAITING
        case _:
            return Standing.FAILED if status is State.FAILED else Standing.STOPPED


def _since(
    video: PlannedVideo, age: JobAge, seen_before: Mapping[str, datetime], now: datetime
) -> tuple[datetime, SinceFrom]:
    """The best that is known. Settings carry no date, and neither does a file that is gone: then the first report."""
    if age.dirty_since is not None:
        return age.dirty_since, SinceFrom.MARKED
    if set(video.reasons.values()) & {INPUT_CHANGED, TIMES_CHANGED}:
        changed_at = datetime.fromtimestamp(video.found.signature.mtime_ns / 1e9, UTC)
        if age.succeeded_at is None or changed_at > age.succeeded_at:  # a copied file may bring an old time with it
            return min(changed_at, now), SinceFrom.FILE
    earlier = None if video.job is None else seen_before.get(video.job.job_id)
    # What was in sync after the last report is stale anew.
    is_known = earlier is not None and (age.succeeded_at is None or earlier >= age.succeeded_at)
    return (earlier if is_known and earlier is not None else now), SinceFrom.REPORT
