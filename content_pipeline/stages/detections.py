"""Detections: which moments are worth watching, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from content_pipeline.artifacts import Draft
from content_pipeline.errors import printable
from content_pipeline.media.detection.detector import Candidate, Detection, detector_for
from content_pipeline.media.selection.highlights import Highlight, MontageRules, Plan, plan_highlights
from content_pipeline.media.spans import Scene, Span
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
        return tuple(scene.span for scene in self.scenes())

    def scenes(self) -> tuple[Scene, ...]:
        """The same, each with the moment that a picture of it shows."""
        document = self.result.artifact.read_json("detections.json")
        return tuple(Scene(Span(item["start_s"], item["end_s"]), item["peak_s"]) for item in document["highlights"])


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
    rules, power = MontageRules.of_settings(settings), curves.broadband.astype("float64") ** 2
    plan = plan_highlights(detection.events, power, energy.content.info.picture_end_s, rules)
    candidates = plan.explain(detection.candidates)
    draft.write_json("detections.json", _as_json(candidates, plan))
    draft.write_bytes("plot.png", _plot(detection, candidates, plan, energy.content))
    draft.facts = {
        "events": len(detection.events),
        "candidates": len(detection.candidates),
        "highlights": len(plan.kept),
        "highlight_s": sum(highlight.span.duration_s for highlight in plan.kept),
        "loudest_dbfs": _dbfs(float(curves.rms.max(initial=0.0))),
    }


def _plot(detection: Detection, candidates: Sequence[Candidate], plan: Plan, content: VideoContent) -> bytes:
    from content_pipeline.media.preview.plot import DetectionsPlot, detections_plot

    return detections_plot(
        DetectionsPlot(
            title=_title(content.video_key),
            level=detection.level,
            threshold=detection.threshold,
            unit=detection.unit,
            duration_s=content.info.duration_s,
            candidates=candidates,
            highlights=plan.kept,
        )
    )


def _title(video_key: str) -> str:
    """The recording's name as its key has it. Not the file's: that may change, and what is made once must stay true."""
    name, dash, _digest = video_key.rpartition("-")
    return printable(name if dash else video_key)


def _as_json(candidates: Iterable[Candidate], plan: Plan) -> dict[str, Any]:
    return {
        "highlights": [_highlight(highlight) for highlight in plan.kept],
        "dropped_highlights": [_highlight(highlight) for highlight in plan.dropped],
        "candidates": [_candidate(candidate) for candidate in candidates],
    }


def _highlight(highlight: Highlight) -> dict[str, Any]:
    peak_s = highlight.peak_s
    return {**_candidate(highlight), "peak_s": None if peak_s is None else round(peak_s, 6)}


def _candidate(candidate: Candidate | Highlight) -> dict[str, Any]:
    return {
        "start_s": round(candidate.span.start_s, 6),
        "end_s": round(candidate.span.end_s, 6),
        "score": candidate.score,
        "dropped_by": candidate.dropped_by,
    }


def _dbfs(level: float) -> float | None:
    import math

    return round(20 * math.log10(level), 1) if level > 0 else None
