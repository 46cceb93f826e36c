"""Montage: clips cut and joined, checked, and published whole."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from content_pipeline.artifacts import Draft
from content_pipeline.errors import CorruptMedia
from content_pipeline.media.ffmpeg import Watch
from content_pipeline.media.render.clip import Clip, Mode, render_clip
from content_pipeline.media.render.join import Montage as Joined
from content_pipeline.media.render.join import join
from content_pipeline.media.render.render_mode import Choice, choose
from content_pipeline.media.render.verify import verify_decodes, verify_montage
from content_pipeline.media.source import Source
from content_pipeline.media.spans import Span
from content_pipeline.publishing.names import Name, safe_name
from content_pipeline.publishing.publish import pieces_of, publish
from content_pipeline.stage import spec_of
from content_pipeline.stages.context import StageContext, StageResult, obtain
from content_pipeline.stages.detections import Decision, detections

CLIP_NAME = "clip.nut"

# Name inside the artifact -> ending of the published name.
PUBLISHED = {"montage.mp4": ".mp4", "montage.json": ".json", "sheet.jpg": ".sheet.jpg", "plot.png": ".plot.png"}
NOTHING_FOUND = "no highlights with these settings"


@dataclass(frozen=True)
class Montage:
    decision: Decision
    result: StageResult

    @property
    def behind(self) -> tuple[StageResult, ...]:
        """Everything that it is made of, and itself, in the order of the stages."""
        sound = self.decision.sound
        return sound.content.result, sound.result, self.decision.result, self.result


def montage(context: StageContext, video_key: str) -> Montage:
    started = time.monotonic()
    decision = detections(context, video_key)
    key = _montage_key(context, decision)
    result = obtain(context, "montage", key, lambda draft: _make(draft, context, video_key, decision))
    pieces = pieces_of(video_key, PUBLISHED, result.artifact, decision.result.artifact)
    published = publish(context.outputs, video_key, _name(context, video_key), pieces, NOTHING_FOUND)
    return Montage(decision, result.with_outputs(published, time.monotonic() - started))


def _name(context: StageContext, video_key: str) -> Name:
    """After the recording; of several copies, after the one that was known first."""
    video = context.videos.first_with_key(video_key)
    if video is None:
        return Name(video_key, video_key)
    stem = video.path.stem
    namesake = context.publications.has_namesake(video.root, stem, video_key, video.size_bytes)
    return Name(safe_name(stem), video_key, namesake)


def _montage_key(context: StageContext, decision: Decision) -> str:
    """Hangs on the clips in their order, by what each is cut from; how they are cut follows from that."""
    return context.stage_key(
        "montage",
        **decision.sound.content.identity,
        track=decision.sound.track,
        spans=[[span.start_s, span.end_s] for span in decision.highlights()],
        clip_version=spec_of("clip").version,
    )


def _make(draft: Draft, context: StageContext, video_key: str, decision: Decision) -> None:
    spans, content = decision.highlights(), decision.sound.content
    if not spans:
        draft.facts = {"clips": 0, "montage_s": 0.0, "mode": None, "reason": "no highlights"}
        return
    with context.open_content(video_key, content.full) as source:
        rendered = _rendered_cleanly(draft.path("montage.mp4"), context, source, decision)
        draft.write_bytes("sheet.jpg", _sheet(source, decision, spans))
    joined, choice = rendered.joined, rendered.choice
    draft.facts = {
        "clips": len(spans),
        "clips_reused": rendered.reused,
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
    document = {"duration_s": joined.duration_s, "mode": choice.mode, "reason": choice.reason, "cuts": cuts}
    draft.write_json("montage.json", document)


@dataclass(frozen=True)
class _Rendered:
    joined: Joined
    choice: Choice
    reused: int  # clips that were there already


def _rendered_cleanly(target: Path, context: StageContext, source: Source, decision: Decision) -> _Rendered:
    """The montage in the mode that suits the recording; where damage was copied with it, encoded instead.

    Encoding hides what cannot be decoded. Where so much is damaged that it cannot, the recording is corrupt.
    """
    choice = choose(source, decision.sound.content.info, decision.highlights(), context.settings.render)
    if choice.mode == "encode":
        return _rendered(target, context, source, decision, choice)
    try:
        return _rendered(target, context, source, decision, choice)
    except CorruptMedia as damage:
        instead = Choice("encode", f"Encoding, because the recording is damaged: {damage}.")
        return _rendered(target, context, source, decision, instead)


def _rendered(target: Path, context: StageContext, source: Source, decision: Decision, choice: Choice) -> _Rendered:
    spans, settings = decision.highlights(), context.settings
    cut = [_clip(context, source, decision, choice.mode, number) for number in range(len(spans))]
    joined = join([clip for clip, _ in cut], settings.render, target)
    verify_montage(joined, None if choice.mode == "copy" else sum(span.duration_s for span in spans))
    if choice.mode != "encode":
        limits = Watch(settings.render.time_limit_s, settings.render.stall_limit_s, settings.limits.max_memory_bytes)
        verify_decodes(joined, limits, context.cores)
    return _Rendered(joined, choice, sum(reused for _, reused in cut))


def _clip(context: StageContext, source: Source, decision: Decision, mode: Mode, number: int) -> tuple[Clip, bool]:
    """One clip of the montage, and whether it was there already."""
    content, track, spans = decision.sound.content, decision.sound.track, decision.highlights()
    span = spans[number]

    def report(fraction: float) -> None:
        context.progress("montage", (number + fraction) / len(spans))

    def make(draft: Draft) -> None:
        target = draft.path(CLIP_NAME)
        render, limits = context.settings.render, context.settings.limits
        draft.facts = render_clip(source, content.info, track, span, mode, render, limits, target, report).as_json()

    inputs = {"start_s": span.start_s, "end_s": span.end_s, "track": track, "mode": mode}
    result = obtain(context, "clip", context.stage_key("clip", **content.identity, **inputs), make)
    report(1.0)
    return Clip.from_json(dict(result.artifact.facts), result.artifact.path(CLIP_NAME)), result.reused


def _sheet(source: Source, decision: Decision, spans: tuple[Span, ...]) -> bytes:
    from content_pipeline.media.preview import contact_sheet

    return contact_sheet(source, decision.sound.content.info, spans)
