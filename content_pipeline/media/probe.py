"""What a recording says of itself: streams, rates, rotation, duration. Reads headers and one frame."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from content_pipeline.errors import LimitExceeded, NoPicture, NotAVideo, printable
from content_pipeline.media.damage import packets, until_damage
from content_pipeline.media.mp4.header import opening_head
from content_pipeline.media.source import Source

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class VideoTrack:
    index: int
    codec: str
    width: int
    height: int
    pixel_format: str
    frame_rate: float
    rotation_degrees: int
    end_s: float | None = None


@dataclass(frozen=True)
class AudioTrack:
    index: int
    codec: str
    rate_hz: int
    channels: int
    declared_duration_s: float | None


@dataclass(frozen=True)
class MediaInfo:
    """`origin_s` is the stamp that a player shows as 0:00; every time elsewhere counts from it."""

    container: str
    duration_s: float
    origin_s: float
    video: VideoTrack | None
    audio: tuple[AudioTrack, ...]

    @property
    def picture_end_s(self) -> float:
        """Where the picture ends; sound may go on."""
        if self.video is None or self.video.end_s is None:
            return self.duration_s
        return min(self.duration_s, self.video.end_s)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> MediaInfo:
        video = VideoTrack(**value["video"]) if value["video"] is not None else None
        return cls(**{**value, "video": video, "audio": tuple(AudioTrack(**track) for track in value["audio"])})


def probe(source: Source) -> MediaInfo:
    with source.container(opening_head(source)) as container:
        _check_formats(container, source)
        _check_size(container, source)
        info = describe(container)
    _check(info, source)
    return info


def _check_size(container: InputContainer, source: Source) -> None:
    """Before the first frame is decoded."""
    for stream in container.streams.video:
        width, height = stream.codec_context.width, stream.codec_context.height
        most = source.limits.max_pixels
        if width * height > most:
            raise LimitExceeded(f"{printable(source.path)} is {width}x{height}; limits.max_pixels is {most}")


def _check_formats(container: InputContainer, source: Source) -> None:
    """A track in a format that nobody here knows has no decoder, and would be stumbled over much later."""
    for stream in (*container.streams.video, *container.streams.audio):
        if getattr(stream, "codec_context", None) is None:
            raise NotAVideo(f"{printable(source.path)}: track {stream.index} is {stream.type} in an unknown format")


def describe(container: InputContainer) -> MediaInfo:
    video = next((stream for stream in container.streams.video if not _is_cover(stream)), None)
    return MediaInfo(
        container=container.format.name,
        duration_s=_duration_s(container),
        origin_s=(container.start_time or 0) / MICROSECONDS,
        video=None if video is None else _video_track(video, container),
        audio=tuple(
            AudioTrack(index, stream.codec_context.name, stream.rate, stream.channels, _declared_s(stream))
            for index, stream in enumerate(container.streams.audio)
        ),
    )


def _video_track(stream: VideoStream, container: InputContainer) -> VideoTrack:
    return VideoTrack(
        index=stream.index,
        codec=stream.codec_context.name,
        width=stream.codec_context.width,
        height=stream.codec_context.height,
        pixel_format=stream.codec_context.pix_fmt or "unknown",
        frame_rate=float(stream.average_rate or stream.base_rate or Fraction(0)),
        rotation_degrees=_rotation_degrees(stream, container),
        end_s=_end_s(stream, container),
    )


def _rotation_degrees(stream: VideoStream, container: InputContainer) -> int:
    """Clockwise turn a player applies. The flag comes with the first frame, so one frame is decoded."""
    with until_damage():  # damage is judged where the pictures are needed, not here
        for packet in packets(container, stream):
            for frame in stream.codec_context.decode(packet if packet.size else None):
                return -round(frame.rotation) % 360
    return 0


def _is_cover(stream: VideoStream) -> bool:
    from av.stream import Disposition

    return bool(stream.disposition & Disposition.attached_pic)


def _declared_s(stream: Stream) -> float | None:
    if stream.duration is None or stream.time_base is None:
        return None
    return float(stream.duration * stream.time_base)


def _end_s(stream: VideoStream, container: InputContainer) -> float | None:
    if (length_s := _declared_s(stream)) is None or stream.start_time is None or stream.time_base is None:
        return None
    return float(stream.start_time * stream.time_base) + length_s - (container.start_time or 0) / MICROSECONDS


def _duration_s(container: InputContainer) -> float:
    if container.duration is None:
        return 0.0
    duration_s = container.duration / MICROSECONDS
    # Matroska declares the last time stamp, not a length: what starts at one hour lasts an hour less.
    if "matroska" in container.format.name:
        duration_s -= (container.start_time or 0) / MICROSECONDS
    return max(0.0, duration_s)


def _check(info: MediaInfo, source: Source) -> None:
    name, longest_s = printable(source.path), source.limits.max_duration_s
    if info.video is None:
        if info.audio:
            raise NoPicture(f"{name} contains sound but no video track")
        raise NotAVideo(f"{name} contains neither video nor audio")
    if info.duration_s > longest_s:
        raise LimitExceeded(f"{name} lasts {info.duration_s:.0f} s; limits.max_duration_s is {longest_s:.0f}")
