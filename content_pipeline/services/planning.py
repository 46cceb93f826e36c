"""Plan a folder: what `process` would do and why, how long it would take, and whether there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from content_pipeline.library.plan import Action, LibraryPlan, PlannedVideo, expected_seconds
from content_pipeline.library.scan import Refused
from content_pipeline.library.space import free_bytes, needed_bytes
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.document import Document
from content_pipeline.services.planner import Planner, command_terms
from content_pipeline.services.processing import ProcessRequest
from content_pipeline.services.recordings import FoundRecordings, describe_found, find_recordings
from content_pipeline.settings import Settings


class PlannedVideoDocument(Document):
    """`stages`: those that would run, and why each; `why` says the same in one line."""

    path: str
    key: str | None
    status: str
    action: str
    stages: dict[str, str]
    why: str
    expected_s: float | None
    note: str


class RenamedDocument(Document):
    before: str = Field(serialization_alias="from")
    after: str = Field(serialization_alias="to")


class PlanTotals(Document):
    """`left_out`: videos to do beyond the limit. `expected_s` is None while nothing is known about costs here."""

    videos: int
    to_run: int
    left_out: int
    up_to_date: int
    expected_s: float | None
    bytes_needed: int
    bytes_free: int


class PlanDocument(Document):
    videos: tuple[PlannedVideoDocument, ...]
    renamed: tuple[RenamedDocument, ...]
    gone: tuple[str, ...]
    offline: tuple[str, ...]
    passed_over: dict[str, int]
    changed_outputs: tuple[str, ...]
    found: FoundRecordings
    totals: PlanTotals

    @property
    def idle(self) -> dict[str, int]:
        """How many videos need no work, by status; those that succeeded are up to date."""
        idle = Counter(video.status for video in self.videos if video.status != "pending")
        return {"up to date": idle.pop("succeeded", 0), **dict(sorted(idle.items()))}


def plan(settings: Settings, request: ProcessRequest) -> PlanDocument:
    """What `process` with the same request would do. Reads no recording and changes nothing."""
    manifest = open_manifest(settings, Access.READ)
    found = find_recordings(settings, request.target, manifest)
    planned = Planner(settings, manifest, command_terms(settings, request.force)).plan(found, request.limit)
    described = describe_found(settings, request.target, found, manifest)
    return _document(settings, planned, found.refused, described, manifest.jobs.recent_costs())


def _document(
    settings: Settings,
    planned: LibraryPlan,
    refused: Sequence[Refused],
    found: FoundRecordings,
    costs: Sequence[dict[str, Any]],
) -> PlanDocument:
    expected = expected_seconds(planned.videos, costs)
    videos = [_video(video, expected.get(video.found.path)) for video in planned.videos]
    videos += [_refused(one) for one in refused]
    sizes = [video.found.signature.size_bytes for video in planned.to_run]
    known_s = [seconds for seconds in expected.values() if seconds is not None]
    return PlanDocument(
        videos=tuple(videos),
        renamed=tuple(RenamedDocument(before=one.before, after=str(one.found.path)) for one in planned.renamed),
        gone=planned.gone,
        offline=planned.offline,
        passed_over={**found.passed_over, **found.other_endings},
        changed_outputs=found.changed_outputs,
        found=found,
        totals=PlanTotals(
            videos=len(videos),
            to_run=len(planned.to_run),
            left_out=planned.left_out,
            up_to_date=sum(video.action is Action.KEEP for video in planned.videos),
            expected_s=round(sum(known_s), 1) if known_s else None,
            # Worked on one after the other, with what each leaves behind being small: the largest decides.
            bytes_needed=max((needed_bytes(size, settings) for size in sizes), default=0),
            bytes_free=free_bytes(settings.state_dir.absolute()),
        ),
    )


def _video(video: PlannedVideo, expected_s: float | None) -> PlannedVideoDocument:
    return PlannedVideoDocument(
        path=str(video.found.path),
        key=None if video.job is None else video.job.video_key,
        status=str(State.PENDING) if video.will_run or video.job is None else str(video.job.status),
        action=str(video.action),
        stages=dict(video.reasons),
        why=video.why,
        expected_s=None if expected_s is None else round(expected_s, 1),
        note=video.note,
    )


def _refused(one: Refused) -> PlannedVideoDocument:
    """A file that cannot be taken, as `process` would say."""
    return PlannedVideoDocument(
        path=str(one.path),
        key=None,
        status=str(State.FAILED),
        action=str(Action.LEAVE),
        stages={},
        why=f"{one.error.code}: {one.error}",
        expected_s=None,
        note="",
    )
