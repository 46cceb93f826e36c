"""The file of one clip: NUT, which keeps any codec and any clock exactly.

The clip's first picture stands at `LEAD_S`, so that sound from before it has a place too. Pictures are stored
in decoding order with their display time only; the decoding times are made once, for the whole montage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from content_pipeline.errors import CorruptMedia, from_own_folder, printable
from content_pipeline.media.render import h264
from content_pipeline.media.render.ticks import rescaled

if TYPE_CHECKING:
    import av
    from av.audio.stream import AudioStream
    from av.container import InputContainer, OutputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.stream import VideoStream

_Kind = TypeVar("_Kind", bound="Stream")
LEAD_S = 10
SoundKind = Literal["aac", "pcm"]
"""`aac`: the recording's own packets, a little more than the clip. `pcm`: exactly the clip's samples."""


@dataclass(frozen=True)
class Picture:
    """One coded picture: `pts` in ticks after the clip's start."""

    data: bytes
    pts: int
    key: bool


@dataclass(frozen=True)
class PictureFormat:
    """What pictures must share to stand in one track; `header` is the `avcC` box in hex."""

    width: int
    height: int
    header: str


class ClipWriter:
    """Writes pictures, then sound. Use as `with ClipWriter.open(path) as writer`."""

    def __init__(self, container: OutputContainer, path: Path) -> None:
        self._container = container
        self._path = path
        self._video: VideoStream | None = None
        self._audio: AudioStream | None = None
        self._time_base = Fraction(1)
        self._lead = 0
        self._shown: list[int] = []

    @property
    def time_base(self) -> Fraction:
        return self._time_base

    @property
    def pictures(self) -> int:
        return len(self._shown)

    @property
    def delay(self) -> int:
        """How far decoding must run ahead of showing, measured: a constant fails where the rate varies."""
        return max(turn - shown for turn, shown in zip(sorted(self._shown), self._shown, strict=True))

    @property
    def picture_format(self) -> PictureFormat:
        assert self._video is not None
        context = self._video.codec_context
        return PictureFormat(context.width, context.height, (context.extradata or b"").hex())

    @property
    def sound_header(self) -> str:
        """What sets one AAC format apart from another; empty for samples."""
        extradata = self._audio.codec_context.extradata if self._audio is not None else None
        return (extradata or b"").hex()

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[ClipWriter]:
        import av

        with own_file(path):
            container = av.open(f"file:{path.absolute()}", "w", format="nut")
        try:
            yield cls(container, path)
        finally:
            with own_file(path):
                container.close()

    def add_video(self, template: VideoStream, sets: h264.ParameterSets, time_base: Fraction) -> None:
        # Opaque: the stream is only copied, so the reader's codec describes it and no encoder is opened.
        self._video = self._container.add_stream_from_template(template, opaque=True)
        self._video.codec_context.extradata = sets.as_box()
        self._video.time_base = self._time_base = time_base
        self._lead = round(LEAD_S / time_base)

    def add_aac(self, template: AudioStream) -> None:
        self._audio = self._container.add_stream_from_template(template)
        self._audio.time_base = Fraction(1, template.rate)

    def add_pcm(self, rate_hz: int, channels: int) -> None:
        stream = self._container.add_stream("pcm_s16le", rate=rate_hz)
        stream.layout = "mono" if channels == 1 else "stereo"
        stream.time_base = Fraction(1, rate_hz)
        self._audio = stream

    def write_picture(self, picture: Picture) -> None:
        import av

        packet = av.Packet(picture.data)
        packet.pts = picture.pts + self._lead
        packet.dts = len(self._shown)  # only has to grow: see above
        packet.is_keyframe = picture.key
        packet.time_base = self._time_base
        assert self._video is not None
        packet.stream = self._video
        self._mux(packet)
        self._shown.append(picture.pts)

    def write_sound_packet(self, data: bytes, position: int, duration: int) -> None:
        """`position` in samples after the clip's start; may be negative, down to `-LEAD_S`."""
        import av

        assert self._audio is not None
        packet = av.Packet(data)
        packet.time_base = Fraction(1, self._audio.rate)
        packet.pts = packet.dts = position + LEAD_S * self._audio.rate
        packet.duration = duration
        packet.is_keyframe = True
        packet.stream = self._audio
        self._mux(packet)

    def write_samples(self, frame: av.AudioFrame | None) -> None:
        assert self._audio is not None
        for packet in self._audio.encode(frame):
            self._mux(packet)

    def _mux(self, packet: Packet[Stream]) -> None:
        with own_file(self._path):
            self._container.mux(packet)


@contextmanager
def own_file(path: Path) -> Iterator[None]:
    """What goes wrong with a file that we write is our folder's fault, not the recording's."""
    import av

    try:
        yield
    except av.error.FFmpegError as error:
        if isinstance(error, OSError):
            raise from_own_folder(error, path) from error
        raise


@contextmanager
def open_clip(path: Path) -> Iterator[InputContainer]:
    """A clip file for reading. It is our own, yet nothing but a clip is accepted for one."""
    import av

    try:
        container = av.open(
            f"file:{path.absolute()}", container_options={"protocol_whitelist": "file", "format_whitelist": "nut"}
        )
    except (av.error.FFmpegError, OSError) as error:
        raise CorruptMedia(f"{printable(path)} is not a readable clip: {error}") from error
    with container:
        yield container


def pictures(container: InputContainer, time_base: Fraction) -> Iterator[Packet[VideoStream]]:
    """The pictures in decoding order, `pts` in ticks of `time_base` after the clip's start."""
    stream = container.streams.video[0]
    yield from _placed(container.demux(stream), stream.time_base, time_base)


def sound_packets(container: InputContainer) -> Iterator[Packet[AudioStream]]:
    """The sound's packets, `pts` in samples after the clip's start."""
    stream = container.streams.audio[0]
    yield from _placed(container.demux(stream), stream.time_base, Fraction(1, stream.rate))


def _placed(packets: Iterator[Packet[_Kind]], stored: Fraction | None, wanted: Fraction) -> Iterator[Packet[_Kind]]:
    """The file's clock is a multiple of the clip's: undone here, exactly."""
    assert stored is not None
    scale, lead = stored / wanted, round(LEAD_S / wanted)
    for packet in packets:
        if packet.size and packet.pts is not None:
            packet.pts = rescaled(packet.pts, scale) - lead
            yield packet
