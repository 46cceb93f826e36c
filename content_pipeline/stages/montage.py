"""Montage: clips cut and joined, checked, and published whole."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from content_pipeline.artifacts import Draft
from content_pipeline.media.render.choice import choose
from content_pipeline.media.render.clip import Clip, Mode, render_clip
from content_pipeline.media.render.join import join
from content_pipeline.media.render.verify import verify_montage
from content_pipeline.media.source import Source
from content_pipeline.media.spans import Span
from content_pipeline.stages.detections import Decision, detections
from content_pipeline.stages.publishing import publish
from content_pipeline.stages.workbench import VERSIONS, StageResult, Workbench, obtain

CLIP_NAME = "clip.nut"

# Name inside the artifact -> ending of the published name.
PUBLISHED = {"montage.mp4": ".mp4", "montage.json": ".json", "sheet.jpg": ".sheet.jpg", "plot.png": ".plot.png"}


@dataclass(frozen=True)
class Montage:
    decision: Decision
    result: StageResult

    @property
    def behind(self) -> tuple[StageResult, ...]:
        """Everything that it is made of, and itself, in the order of the stages."""
        sound = self.decision.sound
        return sound.content.result, sound.result, self.decision.result, self.result


def montage(bench: Workbench, video_key: str) -> Montage:
    started = time.monotonic()
    decision = detections(bench, video_key)
    key = _montage_key(bench, decision)
    result = obtain(bench, "montage", key, lambda draft: _make(draft, bench, video_key, decision))
    published = publish(bench, video_key, PUBLISHED, result.artifact, decision.result.artifact)
    reused, seconds = result.reused and not published.fresh, time.monotonic() - started
    return Montage(decision, replace(result, reused=reused, seconds=seconds, outputs=published.files))


def _montage_key(bench: Workbench, decision: Decision) -> str:
    """Hangs on the clips in their order, by what each is cut from; how they are cut follows from that."""
    return bench.stage_key(
        "montage",
        **decision.sound.content.identity,
        track=decision.sound.track,
        spans=[[span.start_s, span.end_s] for span in decision.highlights()],
        clip_version=VERSIONS["clip"],
    )


def _make(draft: Draft, bench: Workbench, video_key: str, decision: Decision) -> None:
    spans, content = decision.highlights(), decision.sound.content
    if not spans:
        draft.facts = {"clips": 0, "montage_s": 0.0, "mode": None, "reason": "no highlights"}
        return
    with bench.open_content(video_key, content.full) as source:
        choice = choose(source, content.info, spans, bench.settings.render)
        cut = [_clip(bench, source, decision, choice.mode, number) for number in range(len(spans))]
        draft.write_bytes("sheet.jpg", _sheet(source, decision, spans))
    joined = join([clip for clip, _ in cut], bench.settings.render, draft.path("montage.mp4"))
    exact_s = None if choice.mode == "copy" else sum(span.duration_s for span in spans)
    verify_montage(joined, exact_s)
    draft.facts = {
        "clips": len(cut),
        "clips_reused": sum(reused for _, reused in cut),
        "montage_s": joined.duration_s,
        "mode": choice.mode,
        "reason": choice.reason,
    }
    cuts = [
        {
            "source_start_s": cut.source.start_s,
            "source_end_s": cut.source.end_s,
            "start_s": cut.start_s,
            "end_s": cut.end_s,
        }
        for cut in joined.cuts
    ]
    draft.write_json("montage.json", {"duration_s": joined.duration_s, "mode": choice.mode, "cuts": cuts})


def _clip(bench: Workbench, source: Source, decision: Decision, mode: Mode, number: int) -> tuple[Clip, bool]:
    """One clip of the montage, and whether it was there already."""
    content, track, spans = decision.sound.content, decision.sound.track, decision.highlights()
    span = spans[number]

    def report(fraction: float) -> None:
        bench.progress("montage", (number + fraction) / len(spans))

    def make(draft: Draft) -> None:
        target = draft.path(CLIP_NAME)
        render, limits = bench.settings.render, bench.settings.limits
        draft.facts = render_clip(source, content.info, track, span, mode, render, limits, target, report).as_json()

    inputs = {"start_s": span.start_s, "end_s": span.end_s, "track": track, "mode": mode}
    result = obtain(bench, "clip", bench.stage_key("clip", **content.identity, **inputs), make)
    report(1.0)
    return Clip.from_json(dict(result.artifact.facts), result.artifact.path(CLIP_NAME)), result.reused


def _sheet(source: Source, decision: Decision, spans: tuple[Span, ...]) -> bytes:
    from content_pipeline.media.preview import contact_sheet

    return contact_sheet(source, decision.sound.content.info, spans)
