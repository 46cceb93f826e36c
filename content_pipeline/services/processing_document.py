"""What became of recordings, as a document: what `content-ai process --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from content_pipeline.errors import hint_for
from content_pipeline.execution.outcome import Outcome
from content_pipeline.services.document import Document
from content_pipeline.services.pauses import Pause

# In the order in which people are told of them.
STATUSES = (
    *("succeeded", "failed", "superseded", "cancelled", "discarded", "pending", "dirty", "running", "unsettled"),
    *("lost", "removed"),
)
# What a call that was to do the work has left undone.
NOT_DONE = ("failed", "superseded", "pending", "dirty", "running", "lost", "removed")


class VideoOutcome(Document):
    """`stages`: of each finished stage whether it was `computed` or `reused`; `reasons`: why stages were to run."""

    path: str
    key: str | None
    status: str
    error_code: str | None
    error: str | None
    stages: dict[str, str]
    montage: str | None
    copy_of: str | None
    reasons: dict[str, str]
    why: str
    note: str
    outputs: tuple[str, ...]
    written: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    highlights: int | None
    clips: int | None
    montage_s: float | None
    audio_track: int | None
    audio_tracks: int | None

    @classmethod
    def of(cls, outcome: Outcome) -> VideoOutcome:
        facts = outcome.facts
        return cls(
            path=str(outcome.path),
            key=outcome.key,
            status=outcome.status,
            error_code=outcome.error_code,
            error=outcome.error,
            stages=outcome.stages,
            montage=outcome.montage,
            copy_of=None if outcome.copy_of is None else str(outcome.copy_of),
            reasons=dict(outcome.reasons),
            why=outcome.why,
            note=outcome.note,
            outputs=outcome.outputs,
            written=outcome.written,
            notes=outcome.notes,
            seconds=outcome.seconds,
            highlights=facts.get("highlights"),
            clips=facts.get("clips"),
            montage_s=facts.get("montage_s"),
            audio_track=facts.get("track"),
            audio_tracks=facts.get("tracks"),
        )

    @property
    def no_highlights(self) -> bool:
        return self.status == "succeeded" and self.clips == 0

    @property
    def hint(self) -> str | None:
        return hint_for(self.error_code)


class ProcessingTotals(Document):
    videos: int
    succeeded: int
    superseded: int
    failed: int
    cancelled: int
    discarded: int
    pending: int
    dirty: int
    running: int
    unsettled: int
    lost: int
    removed: int
    no_highlights: int
    stages_computed: int
    stages_reused: int
    passed_over: int
    seconds: float

    def of(self, status: str) -> int:
        number: int = getattr(self, status)
        return number


class CalibrationOutcome(Document):
    """A calibration that was waiting in the queue: `result` says what came of it, or `error` why it failed."""

    library: str
    result: str | None = None
    error_code: str | None = None
    error: str | None = None


class ProcessingDocument(Document):
    """`left_out`: videos that need work too, beyond the limit that was asked for."""

    videos: tuple[VideoOutcome, ...]
    passed_over: dict[str, int]
    changed_outputs: tuple[str, ...]
    totals: ProcessingTotals
    left_out: int
    paused: tuple[Pause, ...]
    calibrations: tuple[CalibrationOutcome, ...]
    interrupted: bool


def totals_of(videos: Sequence[VideoOutcome], passed_over: Mapping[str, int], seconds: float) -> ProcessingTotals:
    statuses = [video.status for video in videos]
    stages = [how for video in videos for how in video.stages.values()]
    return ProcessingTotals(
        videos=len(videos),
        **{status: statuses.count(status) for status in STATUSES},
        no_highlights=sum(video.no_highlights for video in videos),
        stages_computed=stages.count("computed"),
        stages_reused=stages.count("reused"),
        passed_over=sum(passed_over.values()),
        seconds=round(seconds, 3),
    )
