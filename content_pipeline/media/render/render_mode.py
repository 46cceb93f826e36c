"""Which way to render suits a recording, and why: one sentence a person can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render.clip import Mode
from content_pipeline.media.render.cutting import CutPlan, plan_copy, plan_smart
from content_pipeline.media.render.survey import Survey, picture_stream, survey
from content_pipeline.media.source import Source
from content_pipeline.media.spans import Span
from content_pipeline.settings import RenderSettings

if TYPE_CHECKING:
    from av.container import InputContainer

MAX_COPY_MOVE_S = 10.0
"""Where a cut would move further than this, copying does not show the highlight any more."""
MIN_COPIED_SHARE = 0.2
"""With less than this to copy, decoding and encoding around the cuts costs as much as encoding it all;
with 30 % it takes four fifths of it."""

_GAP_TOLERANCE_S = 0.05
"""A keyframe every 2 s may be a frame late now and then, or sit on a millisecond clock."""
_PROFILES = {"Baseline", "Constrained Baseline", "Main", "High", "Progressive High", "Constrained High"}


@dataclass(frozen=True)
class ModeChoice:
    mode: Mode
    reason: str


@dataclass(frozen=True)
class PlannedSpan:
    """One span, what surrounds it, and the two ways to cut it without encoding it all."""

    span: Span
    surveyed: Survey
    copy: CutPlan | None
    smart: CutPlan

    @property
    def moved_s(self) -> float:
        """How far copying moves the start."""
        return inf if self.copy is None else self.span.start_s - self.surveyed.time_s(self.copy.start)

    @property
    def keyframe_gap_s(self) -> float:
        """From the clean keyframe before the start to the one after it."""
        if self.copy is None:
            return inf
        clean = (stamp.pts for stamp in self.surveyed.stamps if stamp.clean and stamp.pts > self.copy.start)
        following = min(clean, default=self.surveyed.end_pts)
        return float((following - self.copy.start) * self.surveyed.time_base)

    @property
    def copied_s(self) -> float:
        """How much a smart cut copies."""
        return float((self.smart.copy_end - self.smart.copy_start) * self.surveyed.time_base)


def choose_mode(source: Source, info: MediaInfo, spans: Sequence[Span], settings: RenderSettings) -> ModeChoice:
    """`settings.mode` where this recording allows it; for `auto` the cheapest way that looks right."""
    if settings.mode == "encode":
        return ModeChoice("encode", "Encoding, as render.mode asks.")
    with source.container() as container:
        obstacle = _obstacle(container, info)
        planned_spans = [] if obstacle is not None else [_planned(container, source, info, span) for span in spans]
    if not all(planned.surveyed.timed for planned in planned_spans):
        obstacle = "its frames have no timestamps"
    if obstacle is not None:
        return _encode_instead(settings, obstacle)
    if settings.mode == "auto":
        return _best_choice(planned_spans, settings)
    return _forced_choice(planned_spans, settings)


def _encode_instead(settings: RenderSettings, obstacle: str) -> ModeChoice:
    """Encoding works for every recording; the reason says why nothing cheaper does."""
    asked = "" if settings.mode == "auto" else f", although render.mode is {settings.mode}"
    return ModeChoice("encode", f"Encoding{asked}: {obstacle}.")


def _obstacle(container: InputContainer, info: MediaInfo) -> str | None:
    """What keeps packets from being copied into a plain mp4 that any browser plays."""
    video = info.video
    if video is None:
        return "it has no picture"
    if video.codec != "h264":
        return f"its pictures are {video.codec}, not H.264"
    if video.pixel_format not in ("yuv420p", "yuvj420p"):
        return f"its pixel format is {video.pixel_format}"
    if video.width % 2 or video.height % 2:
        return f"its size is odd ({video.width}x{video.height})"
    if video.rotation_degrees:
        return f"it is rotated by {video.rotation_degrees} degrees"
    context = picture_stream(container, info).codec_context
    aspect = context.sample_aspect_ratio
    if context.profile not in _PROFILES:
        return f"its H.264 profile is {context.profile}"
    if aspect is not None and aspect not in (0, 1):
        return f"its pixels are not square ({aspect})"
    return None


def _planned(container: InputContainer, source: Source, info: MediaInfo, span: Span) -> PlannedSpan:
    surveyed = survey(container, source, info, span)
    return PlannedSpan(span, surveyed, plan_copy(surveyed, span), plan_smart(surveyed, span))


def _copied_share(planned_spans: Sequence[PlannedSpan]) -> float:
    total_s = sum(planned.span.duration_s for planned in planned_spans)
    return sum(planned.copied_s for planned in planned_spans) / total_s if total_s else 1.0


def _best_choice(planned_spans: Sequence[PlannedSpan], settings: RenderSettings) -> ModeChoice:
    gap_s = max((planned.keyframe_gap_s for planned in planned_spans), default=0.0)
    share = _copied_share(planned_spans)
    if gap_s <= settings.copy_keyframe_gap_s + _GAP_TOLERANCE_S:
        return ModeChoice(
            "copy", f"Copying: H.264 with keyframes at most {settings.copy_keyframe_gap_s:g} s apart at the cuts."
        )
    gap = "no keyframe to start at before a cut" if gap_s == inf else f"keyframes {gap_s:.1f} s apart"
    if share >= MIN_COPIED_SHARE:
        return ModeChoice("smart", f"Smart cut: H.264 with {gap}; {share:.0%} is copied, the rest encoded.")
    return _encode_instead(settings, f"H.264 with {gap}, of which a smart cut could copy only {share:.0%}")


def _forced_choice(planned_spans: Sequence[PlannedSpan], settings: RenderSettings) -> ModeChoice:
    if settings.mode == "smart":
        share = _copied_share(planned_spans)
        if share > 0:
            return ModeChoice("smart", f"Smart cut, as render.mode asks; {share:.0%} is copied, the rest encoded.")
        return _encode_instead(settings, "no highlight has a keyframe to copy from")
    moved_s = max((planned.moved_s for planned in planned_spans), default=0.0)
    if moved_s <= MAX_COPY_MOVE_S:
        return ModeChoice("copy", f"Copying, as render.mode asks; cuts move by at most {max(0.0, moved_s):.1f} s.")
    far = "there is none" if moved_s == inf else f"the nearest is {moved_s:.0f} s away"
    return _encode_instead(settings, f"a cut needs a keyframe before it, and {far}")
