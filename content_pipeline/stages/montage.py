"""Montage: clips cut and joined, checked, and published whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from content_pipeline.artifacts import Draft
from content_pipeline.errors import CorruptMedia
from content_pipeline.media.ffmpeg import Watch
from content_pipeline.media.render.render_mode import ModeChoice, choose_mode
from content_pipeline.media.render.verify import verify_decodes, verify_montage
from content_pipeline.media.source import Source
from content_pipeline.media.spans import Scene
from content_pipeline.publishing.names import Name, safe_name
from content_pipeline.publishing.publish import pieces_of, publish
from content_pipeline.stage import spec_of
from content_pipeline.stages import clips
from content_pipeline.stages.clips import ClipRequest, JoinedClips, cut_as_json, cut_clip, join_clips, progress_of_clip
from content_pipeline.stages.context import StageContext, StageResult, obtain
from content_pipeline.stages.detections import DetectionsResult
from content_pipeline.stages.fingerprint import VideoContent

# Name inside the artifacts -> ending of the published name. The plot is made with the detections.
PUBLISHED = {**clips.PUBLISHED, "plot.png": ".plot.png"}
NOTHING_FOUND = "no highlights with these settings"


@dataclass(frozen=True)
class MontageResult:
    detections: DetectionsResult
    result: StageResult

    @property
    def all_results(self) -> tuple[StageResult, ...]:
        """The results of all stages of the video, in the order of the stages."""
        energy = self.detections.energy
        return energy.fingerprint.result, energy.result, self.detections.result, self.result


def montage_key(context: StageContext, content: VideoContent, track: int, scenes: Sequence[Scene]) -> str:
    """Depends on what each clip is cut from and its picture is taken from, in their order."""
    return context.stage_key(
        "montage",
        **content.identity,
        track=track,
        spans=[[scene.span.start_s, scene.span.end_s] for scene in scenes],
        peaks_s=[scene.at_s for scene in scenes],
        clip_version=spec_of("clip").version,
    )


def montage(context: StageContext, detections: DetectionsResult) -> MontageResult:
    started = time.monotonic()
    video_key = detections.content.video_key
    key = montage_key(context, detections.content, detections.energy.track, detections.scenes())
    result = obtain(context, "montage", key, lambda draft: _make(draft, context, detections))
    pieces = pieces_of(video_key, PUBLISHED, result.artifact, detections.result.artifact)
    published = publish(context.outputs, video_key, _name(context, video_key), pieces, NOTHING_FOUND)
    return MontageResult(detections, result.with_outputs(published, time.monotonic() - started))


def _name(context: StageContext, video_key: str) -> Name:
    """After the recording; of several copies, after the one that was known first."""
    video = context.videos.first_with_key(video_key)
    if video is None:
        return Name(video_key, video_key)
    stem = video.path.stem
    namesake = context.publications.has_namesake(video.root, stem, video_key, video.size_bytes)
    return Name(safe_name(stem), video_key, namesake)


def _make(draft: Draft, context: StageContext, detections: DetectionsResult) -> None:
    spans, content = detections.highlights(), detections.content
    if not spans:
        draft.facts = {**clips.NO_CLIPS, "mode": None, "reason": "no highlights"}
        return
    with context.open_content(content.video_key, content.full) as source:
        rendered, choice = _render_cleanly(draft.path("montage.mp4"), context, source, detections)
        draft.write_bytes("sheet.jpg", _contact_sheet(source, detections))
    draft.facts = {**rendered.facts, "mode": choice.mode, "reason": choice.reason}
    draft.write_json(
        "montage.json",
        {
            "duration_s": rendered.joined.duration_s,
            "mode": choice.mode,
            "reason": choice.reason,
            "cuts": [cut_as_json(cut) for cut in rendered.joined.cuts],
        },
    )


def _render_cleanly(
    target: Path, context: StageContext, source: Source, detections: DetectionsResult
) -> tuple[JoinedClips, ModeChoice]:
    """The montage in the mode that suits the recording; where damage was copied with it, encoded instead.

    Encoding hides what cannot be decoded. Where so much is damaged that it cannot, the recording is corrupt.
    """
    choice = choose_mode(source, detections.content.info, detections.highlights(), context.settings.render)
    if choice.mode == "encode":
        return _render(target, context, detections, choice), choice
    try:
        return _render(target, context, detections, choice), choice
    except CorruptMedia as damage:
        instead = ModeChoice("encode", f"Encoding, because the recording is damaged: {damage}.")
        return _render(target, context, detections, instead), instead


def _render(target: Path, context: StageContext, detections: DetectionsResult, choice: ModeChoice) -> JoinedClips:
    spans, settings, track = detections.highlights(), context.settings, detections.energy.track
    cut = [
        cut_clip(
            context,
            ClipRequest(detections.content, span, track, choice.mode),
            progress_of_clip(context, "montage", number, len(spans)),
        )
        for number, span in enumerate(spans)
    ]
    rendered = join_clips(cut, settings.render, target)
    verify_montage(rendered.joined, None if choice.mode == "copy" else sum(span.duration_s for span in spans))
    if choice.mode != "encode":
        limits = Watch(settings.render.time_limit_s, settings.render.stall_limit_s, settings.limits.max_memory_bytes)
        verify_decodes(rendered.joined, limits, context.cores)
    return rendered


def _contact_sheet(source: Source, detections: DetectionsResult) -> bytes:
    from content_pipeline.media.preview.contact_sheet import contact_sheet

    return contact_sheet(source, detections.content.info, detections.scenes())
