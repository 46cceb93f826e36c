"""One rendered highlight: a file of its own, cached, and joined with others to a montage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from content_pipeline.errors import CorruptMedia, printable
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render import sound
from content_pipeline.media.render.clip_file import ClipWriter, PictureFormat, SoundKind
from content_pipeline.media.render.copying import Cutter
from content_pipeline.media.render.cutting import plan_copy, plan_smart
from content_pipeline.media.render.encoding import EncodeOrder, FrameSize, encoded_pictures, frame_rate
from content_pipeline.media.render.survey import Survey, survey
from content_pipeline.media.source import Source
from content_pipeline.media.spans import Span
from content_pipeline.settings import LimitSettings, RenderSettings

if TYPE_CHECKING:
    from av.container import InputContainer

Mode = Literal["copy", "smart", "encode"]


@dataclass(frozen=True)
class Clip:
    """`span` is what was really cut, on the recording's clock: the plan within a frame, or, for `copy`,
    moved out to where packets allow. `ticks` of `time_base` is exactly how long the pictures are shown,
    and `delay` how far their decoding runs ahead.
    """

    path: Path
    span: Span
    mode: Mode
    time_base: Fraction
    ticks: int
    pictures: int
    delay: int
    picture_format: PictureFormat
    sound: SoundKind | None
    sound_header: str
    damaged: int

    def as_json(self) -> dict[str, Any]:
        """All but the path: a clip is found beside its file."""
        span, time_base = [self.span.start_s, self.span.end_s], str(self.time_base)
        value = {**asdict(self), "span": span, "time_base": time_base}
        del value["path"]
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any], path: Path) -> Clip:
        span, time_base = Span(*value["span"]), Fraction(value["time_base"])
        picture_format = PictureFormat(**value["picture_format"])
        return cls(path=path, **{**value, "span": span, "time_base": time_base, "picture_format": picture_format})


@dataclass(frozen=True)
class ClipOrder:
    """One clip to make: from what, how, and into which file.

    `size` is for `encode`: what pictures of mixed recordings are fitted into.
    """

    source: Source
    info: MediaInfo
    audio_track: int | None
    span: Span
    mode: Mode
    render: RenderSettings
    limits: LimitSettings
    target: Path
    size: FrameSize | None = None

    @property
    def name(self) -> str:
        return printable(self.source.path)


@dataclass(frozen=True)
class _Recording:
    """The recording of an order: opened, and surveyed around the span."""

    container: InputContainer
    surveyed: Survey


@dataclass(frozen=True)
class _Pictures:
    """What was written of the pictures: which span, how long they are shown, and how many are damaged."""

    span: Span
    ticks: int
    damaged: int


def render_clip(order: ClipOrder, progress: Callable[[float], None] | None = None) -> Clip:
    """Cut one span into a file. Raises `CorruptMedia` when data inside the span is missing; no file is left then."""
    with order.source.container() as container:
        surveyed = survey(container, order.source, order.info, order.span)
        recording = _Recording(container, surveyed)
        order = replace(order, span=_with_pictures(order, surveyed))
        try:
            clip = _encode(order, recording, progress) if order.mode == "encode" else _cut(order, recording)
            order.source.check_unchanged()
        except BaseException:
            order.target.unlink(missing_ok=True)
            raise
    if progress is not None:
        progress(1.0)
    return clip


def _with_pictures(order: ClipOrder, surveyed: Survey) -> Span:
    """A recording's sound may outlast its pictures: a clip ends with the pictures."""
    span = order.span
    end_s = min(span.end_s, surveyed.time_s(surveyed.end_pts)) if surveyed.at_end else span.end_s
    if end_s <= span.start_s:
        raise CorruptMedia(f"{order.name}: no picture between {span.start_s:.2f} and {span.end_s:.2f} s")
    return Span(span.start_s, end_s)


def _cut(order: ClipOrder, recording: _Recording) -> Clip:
    """Copy packets; for `smart`, encode the edges."""
    surveyed, span = recording.surveyed, order.span
    plan = plan_copy(surveyed, span) if order.mode == "copy" else plan_smart(surveyed, span)
    if plan is None or not surveyed.timed:
        raise CorruptMedia(f"{order.name}: no keyframe to cut at near {span.start_s:.2f} s; use render.mode encode")
    damaged = sum(stamp.damaged for stamp in surveyed.stamps[plan.copy_from : plan.copy_to])
    shown = Span(surveyed.time_s(plan.start), surveyed.time_s(plan.end))
    pictures = _Pictures(shown, plan.end - plan.start, damaged)
    with ClipWriter.open(order.target) as writer:
        cutter = Cutter(recording.container, order.info, surveyed, plan, order.render)
        writer.add_video(cutter.stream, cutter.sets, surveyed.time_base)
        kind = _add_sound(order, recording, writer)
        cutter.write_to(writer)
        report = _write_sound(order, recording, kind, shown, writer)
    _check_holes(order, recording, report, shown)
    return _clip(order, writer, pictures, kind, report)


def _encode(order: ClipOrder, recording: _Recording, progress: Callable[[float], None] | None) -> Clip:
    """Encode the pictures to the contract, and decode the sound; the join encodes that, once for all clips."""
    encode_order = EncodeOrder(
        order.source, order.info, recording.surveyed, order.span, order.render, order.limits, order.size
    )
    with encoded_pictures(encode_order, order.target, progress) as encoded, ClipWriter.open(order.target) as writer:
        encoded.write_to(writer, lambda: _add_sound(order, recording, writer))
        ticks = round(writer.pictures / (frame_rate(order.render) * writer.time_base))
        shown = Span(order.span.start_s, order.span.start_s + float(ticks * writer.time_base))
        kind: SoundKind | None = None if order.audio_track is None else "pcm"
        report = _write_sound(order, recording, kind, shown, writer)
    _check_holes(order, recording, report, shown)
    return _clip(order, writer, _Pictures(shown, ticks, encoded.damaged), kind, report)


def _clip(
    order: ClipOrder, writer: ClipWriter, pictures: _Pictures, kind: SoundKind | None, report: sound.SoundReport
) -> Clip:
    """What was written."""
    return Clip(
        path=order.target,
        span=pictures.span,
        mode=order.mode,
        time_base=writer.time_base,
        ticks=pictures.ticks,
        pictures=writer.pictures,
        delay=writer.delay,
        picture_format=writer.picture_format,
        sound=kind,
        sound_header=writer.sound_header if kind == "aac" else "",
        damaged=pictures.damaged + report.damaged,
    )


def _add_sound(order: ClipOrder, recording: _Recording, writer: ClipWriter) -> SoundKind | None:
    """Announce the clip's sound; a file's streams must be known before its first packet."""
    if order.audio_track is None:
        return None
    stream = recording.container.streams.audio[order.audio_track]
    if order.mode != "encode" and sound.kind_for(stream) == "aac":
        writer.add_aac(stream)
        return "aac"
    writer.add_pcm(order.render.audio_rate_hz, order.render.audio_channels)
    return "pcm"


def _write_sound(
    order: ClipOrder, recording: _Recording, kind: SoundKind | None, span: Span, writer: ClipWriter
) -> sound.SoundReport:
    if order.audio_track is None or kind is None:
        return sound.SoundReport()
    if kind == "aac":
        return sound.write_aac(recording.container, order.info, order.audio_track, span, writer)
    return sound.write_pcm(recording.container, order.info, order.audio_track, span, order.render, writer)


def _check_holes(order: ClipOrder, recording: _Recording, report: sound.SoundReport, span: Span) -> None:
    """Picture and sound missing at the same time: that part of the file is lost."""
    for picture_hole in recording.surveyed.holes:
        for sound_hole in report.holes:
            lost_s = picture_hole.overlap_s(sound_hole)
            if lost_s > sound.HOLE_S and span.overlap_s(picture_hole) > sound.HOLE_S:
                raise CorruptMedia(f"{order.name}: {lost_s:.2f} s are missing at {picture_hole.start_s:.2f} s")
