"""Detections: which moments are worth watching, and why the others are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from content_pipeline.artifacts import Draft
from content_pipeline.errors import printable
from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Candidate, Detection, detector_for
from content_pipeline.media.selection.highlights import Highlight, Plan, plan_highlights
from content_pipeline.media.spans import Span
from content_pipeline.stages.context import StageContext, StageResult, obtain
from content_pipeline.stages.energy import EnergyResult
from content_pipeline.stages.fingerprint import VideoContent


@dataclass(frozen=True)
class DetectionsResult:
    energy: EnergyResult
    result: StageResult

    @property
    def content(self) -> VideoContent:
        return self.energy.content

    def highlights(self) -> tuple[Span, ...]:
        """The spans of the montage, in its order."""
        plan = self.result.artifact.read_json("detections.json")
        return tuple(Span(item["start_s"], item["end_s"]) for item in plan["highlights"])


def detections_key(context: StageContext, content: VideoContent, curves_digest: str, track: int) -> str:
    """The content and the name too: where the picture ends and what the plot is called follow from them."""
    inputs = {**content.identity, "energy": curves_digest, "track": track}
    return context.stage_key("detections", **inputs, title=content.video_key)


def detections(context: StageContext, energy: EnergyResult) -> DetectionsResult:
    key = detections_key(context, energy.content, energy.result.artifact.digest, energy.track)
    return DetectionsResult(energy, obtain(context, "detections", key, lambda draft: _decide(draft, context, energy)))


def _decide(draft: Draft, context: StageContext, energy: EnergyResult) -> None:
    settings, curves = context.settings, energy.curves()
    detection = detector_for(settings.detection).detect(curves)
    plan = plan_highlights(
        detection.events,
        curves.broadband.astype("float64") ** 2,
        energy.content.info.picture_end_s,
        settings.detection,
        settings.processing,
        settings.output,
    )
    draft.write_json("detections.json", _as_json(detection, plan))
    draft.write_bytes("plot.png", _plot(detection, plan, energy.content))
    draft.facts = {
        "events": len(detection.events),
        "candidates": len(detection.candidates),
        "highlights": len(plan.kept),
        "highlight_s": sum(highlight.span.duration_s for highlight in plan.kept),
        "loudest_dbfs": _dbfs(float(curves.rms.max(initial=0.0))),
    }


def _plot(detection: Detection, plan: Plan, content: VideoContent) -> bytes:
    from content_pipeline.media.preview import detections_plot

    return detections_plot(
        detection.level,
        detection.threshold,
        detection.unit,
        FRAME_RATE_HZ,
        content.info.duration_s,
        detection.candidates,
        [(highlight.span, highlight.score) for highlight in plan.kept],
        printable(content.video_key),
    )


def _as_json(detection: Detection, plan: Plan) -> dict[str, Any]:
    return {
        "highlights": [_item(highlight) for highlight in plan.kept],
        "dropped_highlights": [_item(highlight) for highlight in plan.dropped],
        "candidates": [_item(candidate) for candidate in detection.candidates],
    }


def _item(moment: Candidate | Highlight) -> dict[str, Any]:
    return {
        "start_s": round(moment.span.start_s, 6),
        "end_s": round(moment.span.end_s, 6),
        "score": moment.score,
        "dropped_by": moment.dropped_by,
    }


def _dbfs(level: float) -> float | None:
    import math

    return round(20 * math.log10(level), 1) if level > 0 else None
