"""Evaluate a detector: how well it finds what a person found, on clips whose fights are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from content_pipeline.services.document import Document
from content_pipeline.settings import Settings

if TYPE_CHECKING:
    from content_pipeline.media.detection.evaluation import Agreement, Judgement, Verdict


class Measures(Document):
    """A measure that does not apply is null: of a quiet clip only its false events count."""

    event_precision: float | None
    event_recall: float | None
    event_f1: float | None
    time_f1: float | None
    false_events_quiet: int | None
    montage_share: float | None


class ClipMeasures(Measures):
    file: str


class EvaluationDocument(Measures):
    """`empty_montages`: clips with fights of which nothing was chosen; they count as a share of 0."""

    clips: tuple[ClipMeasures, ...]
    empty_montages: int = Field(exclude=True)


def evaluate(settings: Settings, labels: Path, gain_db: float = 0.0) -> EvaluationDocument:
    """Find events in each labelled clip as `process` would, and compare. Nothing is stored.

    `gain_db` simulates clips that were recorded louder or quieter.
    """
    from content_pipeline.media.curves.measure import primary_curves
    from content_pipeline.media.detection.evaluation import Judgement, at_level, judge
    from content_pipeline.media.detection.labels import read_labels
    from content_pipeline.system.parallel_map import parallel_map

    clips = read_labels(labels)
    paths = [labels.parent / clip.file for clip in clips]
    # A few at a time, each in a process that ends with this one.
    measured = parallel_map(lambda path: primary_curves(path, settings), paths, settings.worker_count)
    verdicts = [
        judge(clip, at_level(curves, gain_db), settings.detection) for clip, curves in zip(clips, measured, strict=True)
    ]
    return _document(Judgement(tuple(verdicts)))


def count_clips(labels: Path) -> int:
    from content_pipeline.media.detection.labels import read_labels

    return len(read_labels(labels))


def _document(judgement: Judgement) -> EvaluationDocument:
    return EvaluationDocument(
        **_agreement(judgement.agreement),
        false_events_quiet=judgement.false_events_quiet,
        montage_share=_rounded(judgement.montage_share),
        clips=tuple(_clip(verdict) for verdict in judgement.verdicts),
        empty_montages=judgement.empty_montages,
    )


def _clip(verdict: Verdict) -> ClipMeasures:
    return ClipMeasures(
        file=verdict.clip.file,
        **_agreement(verdict.agreement),
        false_events_quiet=verdict.agreement.detected if verdict.clip.is_quiet else None,
        montage_share=_rounded(verdict.montage_share),
    )


def _agreement(agreement: Agreement) -> dict[str, float | None]:
    applies = agreement.labelled > 0
    return {
        "event_precision": _rounded(agreement.precision if applies else None),
        "event_recall": _rounded(agreement.recall if applies else None),
        "event_f1": _rounded(agreement.f1 if applies else None),
        "time_f1": _rounded(agreement.time_f1 if applies else None),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
