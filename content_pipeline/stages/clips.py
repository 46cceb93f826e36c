"""Clips: each is cut once and kept as an artifact of its own; a montage and a best-of are clips joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from content_pipeline.artifacts import Draft
from content_pipeline.media.render.clip import Clip, ClipOrder, Mode, render_clip
from content_pipeline.media.render.encoding import FrameSize
from content_pipeline.media.render.join import Cut, JoinedMontage, join
from content_pipeline.media.spans import Span
from content_pipeline.settings import RenderSettings
from content_pipeline.stage import StageName
from content_pipeline.stages.context import StageContext, obtain
from content_pipeline.stages.fingerprint import VideoContent

CLIP_NAME = "clip.nut"

# Name inside an artifact of joined clips -> ending of the published name.
PUBLISHED = {"montage.mp4": ".mp4", "montage.json": ".json", "sheet.jpg": ".sheet.jpg"}


@dataclass(frozen=True)
class ClipRequest:
    """One clip: which span of which video, with which sound, and how it is cut.

    `size` is for `encode`: what the pictures of mixed recordings are fitted into.
    """

    content: VideoContent
    span: Span
    track: int
    mode: Mode
    size: FrameSize | None = None

    @property
    def cut(self) -> dict[str, Any]:
        """What is cut from the recording; part of a clip's key, and of the key of a best-of."""
        return {"start_s": self.span.start_s, "end_s": self.span.end_s, "track": self.track, "mode": self.mode}

    def key(self, context: StageContext) -> str:
        size = {} if self.size is None else {"size": [self.size.width, self.size.height]}
        return context.stage_key("clip", **self.content.identity, **self.cut, **size)


@dataclass(frozen=True)
class CutClip:
    clip: Clip
    reused: bool


@dataclass(frozen=True)
class JoinedClips:
    joined: JoinedMontage
    reused: int  # clips that were not cut just now

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "clips": len(self.joined.cuts),
            "clips_reused": self.reused,
            "montage_s": self.joined.duration_s,
        }


NO_CLIPS: Mapping[str, Any] = {"clips": 0, "montage_s": 0.0}


def cut_clip(context: StageContext, request: ClipRequest, report: Callable[[float], None]) -> CutClip:
    """Find the clip, or cut it from the recording."""
    content = request.content

    def make(draft: Draft) -> None:
        settings, target = context.settings, draft.path(CLIP_NAME)
        with context.open_content(content.video_key, content.full) as source:
            order = ClipOrder(
                source,
                content.info,
                request.track,
                request.span,
                request.mode,
                settings.render,
                settings.limits,
                target,
                request.size,
            )
            clip = render_clip(order, report)
        draft.facts = clip.as_json()

    result = obtain(context, "clip", request.key(context), make)
    report(1.0)
    return CutClip(Clip.from_json(dict(result.artifact.facts), result.artifact.path(CLIP_NAME)), result.reused)


def progress_of_clip(context: StageContext, stage: StageName, number: int, count: int) -> Callable[[float], None]:
    """Reports the progress of one clip of several as progress of the whole stage."""
    return lambda fraction: context.progress(stage, (number + fraction) / count)


def join_clips(clips: Sequence[CutClip], render: RenderSettings, target: Path) -> JoinedClips:
    return JoinedClips(join([cut.clip for cut in clips], render, target), sum(cut.reused for cut in clips))


def cut_as_json(cut: Cut) -> dict[str, float]:
    """Where a clip lies in its recording, and where in the joined video."""
    return {
        "source_start_s": cut.source.start_s,
        "source_end_s": cut.source.end_s,
        "start_s": cut.start_s,
        "end_s": cut.end_s,
    }
