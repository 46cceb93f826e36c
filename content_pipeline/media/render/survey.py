"""What the packets around a span say: positions, keyframes, damage. Nothing is decoded.

Copying, smart cutting and the choice between them are decided on a survey; it also is where data that
is missing inside a span is noticed, whichever mode renders it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING

from content_pipeline.errors import CorruptMedia, NoPicture, printable
from content_pipeline.media.damage import packets, seek_back, until_damage
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render import h264
from content_pipeline.media.source import Source
from content_pipeline.media.spans import Span

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

LOOK_BACK_S = (0.5, 4.0, 12.0, 30.0)
"""How far before a span a keyframe is looked for, at first and at last."""
REORDER_PACKETS = 32
"""Packets read past the end: no H.264 picture is shown more than 16 pictures after its turn."""
MISSING_S = 0.5
"""A hole this long in picture and sound alike is data lost, not a quiet moment of a variable rate."""
MAX_DAMAGED_SHARE = 0.05


@dataclass(frozen=True)
class Stamp:
    """One coded picture. `clean`: decoding can start here and nothing later refers back past it."""

    pts: int
    key: bool
    clean: bool
    damaged: bool


@dataclass(frozen=True)
class Survey:
    """The pictures of a span in decoding order, from the keyframe before it to a little after it.

    `seek_s` is where reading started, on the container's clock: reading again finds the same packets.
    `timed` is False when a picture has no position of its own (AVI): such packets cannot be copied.
    """

    stamps: tuple[Stamp, ...]
    time_base: Fraction
    origin_s: float
    seek_s: float
    timed: bool
    at_end: bool

    def time_s(self, pts: int) -> float:
        return float(pts * self.time_base) - self.origin_s

    def ticks(self, time_s: float) -> int:
        return round((time_s + self.origin_s) / self.time_base)

    @property
    def frame_ticks(self) -> int:
        """How long a picture usually stands."""
        shown = sorted(stamp.pts for stamp in self.stamps)
        steps = [after - before for before, after in pairwise(shown) if after > before]
        return median_low(steps) if steps else max(1, round(Fraction(1, 30) / self.time_base))

    @property
    def holes(self) -> tuple[Span, ...]:
        """Where one picture stands suspiciously long: lost data, or a variable rate at rest."""
        shown = sorted(stamp.pts for stamp in self.stamps)
        pairs = pairwise(shown)
        return tuple(
            Span(self.time_s(before), self.time_s(after))
            for before, after in pairs
            if (after - before) * self.time_base > MISSING_S
        )

    @property
    def end_pts(self) -> int:
        """Where the last surveyed picture stops being shown."""
        return max(stamp.pts for stamp in self.stamps) + self.frame_ticks


def survey(container: InputContainer, source: Source, info: MediaInfo, span: Span) -> Survey:
    """Read the packets of a span. Raises `CorruptMedia` when data inside it is missing."""
    if info.video is None:
        raise NoPicture(f"{printable(source.path)} holds no picture")
    surveyed = _read(container, info, span, LOOK_BACK_S[0])
    for back_s, further_s in pairwise(LOOK_BACK_S):
        starts_in_time = bool(surveyed.stamps) and surveyed.time_s(surveyed.stamps[0].pts) <= span.start_s
        if starts_in_time or back_s > span.start_s + 1:
            break
        surveyed = _read(container, info, span, further_s)
    _check(surveyed, source, info, span, container)
    return surveyed


def _read(container: InputContainer, info: MediaInfo, span: Span, back_s: float) -> Survey:
    stream = picture_stream(container, info)
    assert stream.time_base is not None
    # A little before the beginning where that is meant: MPEG-TS otherwise starts after its first keyframe.
    seek_s = info.origin_s + max(-1.0, span.start_s - back_s)
    reader = _Inspector(stream)
    end_pts = round((info.origin_s + span.end_s) / stream.time_base)
    stamps: list[Stamp] = []
    timed, past, at_end = True, 0, True
    for packet in packets_from(container, stream, seek_s):
        if packet.pts is None:
            timed = False
            continue
        stamp = reader.stamp(packet)
        if stamp.key and packet.pts * stream.time_base <= info.origin_s + span.start_s:
            stamps.clear()  # only the last keyframe before the span matters
        if stamps or stamp.key:
            stamps.append(stamp)
        past += packet.pts >= end_pts
        if past > REORDER_PACKETS:
            at_end = False
            break
    timed = timed and len({stamp.pts for stamp in stamps}) == len(stamps)
    return Survey(tuple(stamps), stream.time_base, info.origin_s, seek_s, timed, at_end)


def picture_stream(container: InputContainer, info: MediaInfo) -> VideoStream:
    """The track that `info` describes; a file may also hold cover images."""
    return next(stream for stream in container.streams.video if info.video is None or stream.index == info.video.index)


def packets_from(container: InputContainer, stream: VideoStream, seek_s: float) -> Iterator[Packet[VideoStream]]:
    """The picture packets from the keyframe at or before a time on the container's clock.

    What cannot be read any further ends the packets: how much is missing is judged by who knows the plan.
    """
    with until_damage():
        seek_back(container, stream, seek_s)
        for packet in packets(container, stream):
            if packet.size:
                yield packet


class _Inspector:
    """Looks into packets as far as their codec is known."""

    def __init__(self, stream: VideoStream) -> None:
        extradata = stream.codec_context.extradata or b""
        self._is_h264 = stream.codec_context.name == "h264"
        self._length_size = h264.parameter_sets(extradata).length_size if self._is_h264 and extradata else 0

    def stamp(self, packet: Packet[VideoStream]) -> Stamp:
        assert packet.pts is not None
        if not self._is_h264:
            return Stamp(packet.pts, packet.is_keyframe, False, packet.is_corrupt)
        try:
            types = h264.unit_types(memoryview(packet), self._length_size)
        except h264.Malformed:
            return Stamp(packet.pts, packet.is_keyframe, False, True)
        return Stamp(packet.pts, packet.is_keyframe, h264.IDR in types, packet.is_corrupt)


def _check(surveyed: Survey, source: Source, info: MediaInfo, span: Span, container: InputContainer) -> None:
    """Missing data inside the span is an error; bit errors are only counted, up to a share."""
    name = printable(source.path)
    where = f"between {span.start_s:.2f} and {span.end_s:.2f} s"
    if not surveyed.stamps:
        raise CorruptMedia(f"{name}: no picture can be read {where}")
    pictures_end_s = surveyed.time_s(surveyed.end_pts)
    declared_end_s = _declared_end_s(container, info)
    if surveyed.at_end and pictures_end_s < min(span.end_s, declared_end_s) - MISSING_S:
        raise CorruptMedia(f"{name}: the picture stops at {pictures_end_s:.2f} s, {declared_end_s:.2f} s were declared")
    inside = [stamp for stamp in surveyed.stamps if span.start_s <= surveyed.time_s(stamp.pts) < span.end_s]
    damaged = sum(stamp.damaged for stamp in inside)
    if damaged > MAX_DAMAGED_SHARE * len(inside):
        raise CorruptMedia(f"{name}: {damaged} of {len(inside)} pictures {where} are damaged")


def _declared_end_s(container: InputContainer, info: MediaInfo) -> float:
    """Where the container says the picture ends: the track's own word where there is one."""
    stream = picture_stream(container, info)
    if stream.duration is not None and stream.time_base is not None:
        start = stream.start_time if stream.start_time is not None else 0
        return float((start + stream.duration) * stream.time_base) - info.origin_s
    tag = stream.metadata.get("DURATION", "")
    try:
        hours, minutes, seconds = tag.split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds) - info.origin_s
    except ValueError:
        return info.duration_s
