"""One rendered highlight: a file of its own, cached, and joined with others to a montage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from content_pipeline.errors import CorruptMedia, printable
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render import sound
from content_pipeline.media.render.clip_file import ClipWriter, SoundKind
from content_pipeline.media.render.copying import open_cutter, write_pictures
from content_pipeline.media.render.cutting import plan_copy, plan_smart
from content_pipeline.media.render.encoding import FrameSize, encoded_pictures, frame_rate
from content_pipeline.media.render.survey import Survey, survey
from content_pipeline.media.source import Source
from content_pipeline.media.spans import Span
from content_pipeline.settings import LimitSettings, RenderSettings

Mode = Literal["copy", "smart", "encode"]


@dataclass(frozen=True)
class Clip:
    """`span` is what was really cut, on the recording's clock: the plan within a frame, or, for `copy`,
    moved out to where packets allow. `ticks` of `time_base` is exactly how long the pictures are shown.
    """

    path: Path
    span: Span
    mode: Mode
    time_base: Fraction
    ticks: int
    pictures: int
    sound: SoundKind | None
    damaged: int = 0

    @property
    def duration_s(self) -> float:
        return float(self.ticks * self.time_base)

    def moved(self, path: Path) -> Clip:
        """The same clip after its file was renamed."""
        return replace(self, path=path)

    def as_json(self) -> dict[str, Any]:
        """All but the path: a clip is found beside its file."""
        return {
            "span": [self.span.start_s, self.span.end_s],
            "mode": self.mode,
            "time_base": str(self.time_base),
            "ticks": self.ticks,
            "pictures": self.pictures,
            "sound": self.sound,
            "damaged": self.damaged,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], path: Path) -> Clip:
        fields = {**value, "span": Span(*value["span"]), "time_base": Fraction(value["time_base"])}
        return cls(path=path, **fields)


def render_clip(
    source: Source,
    info: MediaInfo,
    audio_track: int | None,
    span: Span,
    mode: Mode,
    settings: RenderSettings,
    limits: LimitSettings,
    target: Path,
    progress: Callable[[float], None] | None = None,
    size: FrameSize | None = None,
) -> Clip:
    """Cut one span into a file. `size` is for `encode`: what pictures of mixed recordings are fitted into.

    Raises `CorruptMedia` when data inside the span is missing; nothing is left at `target` then.
    """
    surveyed = survey(source, info, span)
    span = _with_pictures(source, surveyed, span)
    try:
        if mode == "encode":
            clip = _encoded(source, info, audio_track, surveyed, span, settings, limits, target, progress, size)
        else:
            clip = _cut(source, info, audio_track, surveyed, span, mode, settings, target)
        source.check_unchanged()
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    if progress is not None:
        progress(1.0)
    return clip


def _with_pictures(source: Source, surveyed: Survey, span: Span) -> Span:
    """A recording's sound may outlast its pictures: a clip ends with the pictures."""
    end_s = min(span.end_s, surveyed.time_s(surveyed.end_pts)) if surveyed.at_end else span.end_s
    if end_s <= span.start_s:
        raise CorruptMedia(f"{printable(source.path)}: no picture between {span.start_s:.2f} and {span.end_s:.2f} s")
    return Span(span.start_s, end_s)


def _cut(
    source: Source,
    info: MediaInfo,
    audio_track: int | None,
    surveyed: Survey,
    span: Span,
    mode: Literal["copy", "smart"],
    settings: RenderSettings,
    target: Path,
) -> Clip:
    plan = plan_copy(surveyed, span) if mode == "copy" else plan_smart(surveyed, span)
    if plan is None or not surveyed.timed:
        raise CorruptMedia(f"{printable(source.path)}: no keyframe to cut at near {span.start_s:.2f} s; use encode")
    real = Span(surveyed.time_s(plan.start), surveyed.time_s(plan.end))
    with ClipWriter.open(target) as writer, open_cutter(source, info, surveyed, plan, settings) as cutter:
        writer.add_video(cutter.stream, cutter.all_sets, surveyed.time_base)
        kind = _add_sound(source, audio_track, settings, writer, copied=True)
        count = write_pictures(cutter, writer)
        report = _write_sound(source, info, audio_track, kind, real, settings, writer)
    damaged = sum(stamp.damaged for stamp in surveyed.stamps[plan.copy_from : plan.copy_to]) + report.damaged
    _check_holes(source, surveyed, report, real)
    return Clip(target, real, mode, surveyed.time_base, plan.end - plan.start, count, kind, damaged)


def _encoded(
    source: Source,
    info: MediaInfo,
    audio_track: int | None,
    surveyed: Survey,
    span: Span,
    settings: RenderSettings,
    limits: LimitSettings,
    target: Path,
    progress: Callable[[float], None] | None,
    size: FrameSize | None,
) -> Clip:
    with (
        encoded_pictures(source, info, span, settings, limits, size, target, progress) as made,
        ClipWriter.open(target) as writer,
    ):
        pictures = made.write_to(writer, lambda: _add_sound(source, audio_track, settings, writer, copied=False))
        per_picture = 1 / (frame_rate(settings) * pictures.time_base)
        ticks = round(pictures.pictures * per_picture)
        real = Span(span.start_s, span.start_s + float(ticks * pictures.time_base))
        kind: SoundKind | None = None if audio_track is None else "pcm"
        report = _write_sound(source, info, audio_track, kind, real, settings, writer)
    _check_holes(source, surveyed, report, real)
    damaged = pictures.damaged + report.damaged
    return Clip(target, real, "encode", pictures.time_base, ticks, pictures.pictures, kind, damaged)


def _add_sound(
    source: Source, audio_track: int | None, settings: RenderSettings, writer: ClipWriter, *, copied: bool
) -> SoundKind | None:
    """Announce the clip's sound; a file's streams must be known before its first packet."""
    if audio_track is None:
        return None
    with source.container() as container:
        stream = container.streams.audio[audio_track]
        kind = sound.kind_for(stream) if copied else "pcm"
        if kind == "aac":
            writer.add_aac(stream)
        else:
            writer.add_pcm(settings.audio_rate_hz, settings.audio_channels)
    return kind


def _write_sound(
    source: Source,
    info: MediaInfo,
    audio_track: int | None,
    kind: SoundKind | None,
    span: Span,
    settings: RenderSettings,
    writer: ClipWriter,
) -> sound.SoundReport:
    if audio_track is None or kind is None:
        return sound.SoundReport()
    if kind == "aac":
        return sound.write_aac(source, info, audio_track, span, writer)
    return sound.write_pcm(source, info, audio_track, span, settings, writer)


def _check_holes(source: Source, surveyed: Survey, report: sound.SoundReport, span: Span) -> None:
    """Picture and sound missing at the same time: that part of the file is lost."""
    for picture_hole in surveyed.holes:
        for sound_hole in report.holes:
            lost_s = picture_hole.overlap_s(sound_hole)
            if lost_s > sound.HOLE_S and span.overlap_s(picture_hole) > sound.HOLE_S:
                name = printable(source.path)
                raise CorruptMedia(f"{name}: {lost_s:.2f} s are missing at {picture_hole.start_s:.2f} s")
