"""The re-encoded edges of a smart cut: pictures made to look like the recording's own.

An edge has the recording's size, pixel format, profile and colours, and parameter sets with ids of its own.
It uses no B-pictures: it is short, and its pictures come out in the order they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from content_pipeline.errors import CorruptMedia
from content_pipeline.media.render import h264
from content_pipeline.media.render.clip_file import Picture
from content_pipeline.settings import RenderSettings

if TYPE_CHECKING:
    import av
    from av.packet import Packet
    from av.video.codeccontext import VideoCodecContext
    from av.video.stream import VideoStream

_PROFILES = {"Baseline": "baseline", "Constrained Baseline": "baseline", "Main": "main"}


class EdgeEncoder:
    """Encodes one edge: the pictures shown in `[start, end)`, in ticks of the recording."""

    def __init__(
        self, stream: VideoStream, sets: h264.ParameterSets, settings: RenderSettings, start: int, end: int
    ) -> None:
        self._start, self._end = start, end
        self._codec = _encoder(stream, sets.free_id(), settings)
        self._waiting: av.VideoFrame | None = None
        self._encoded = 0

    @property
    def sets(self) -> h264.ParameterSets:
        return h264.parameter_sets(self._codec.extradata or b"")

    def feed(self, frames: list[av.VideoFrame]) -> Iterator[Picture]:
        """Frames come in the order they are shown; the last one before the start is shown at the start."""
        for frame in frames:
            if frame.pts is None or frame.pts >= self._end:
                continue
            if frame.pts <= self._start:
                self._waiting = frame
                continue
            yield from self._release()
            yield from self._encode(frame)

    def finish(self) -> Iterator[Picture]:
        yield from self._release()
        if not self._encoded:
            raise CorruptMedia("no picture can be decoded at a cut")
        yield from self._pictures(self._codec.encode(None))

    def _release(self) -> Iterator[Picture]:
        frame, self._waiting = self._waiting, None
        if frame is not None:
            frame.pts = self._start
            yield from self._encode(frame)

    def _encode(self, frame: av.VideoFrame) -> Iterator[Picture]:
        from av.video.frame import PictureType

        frame.pict_type = PictureType.NONE  # the recording's keyframes are not the edge's
        self._encoded += 1
        yield from self._pictures(self._codec.encode(frame))

    def _pictures(self, packets: list[Packet[VideoStream]]) -> Iterator[Picture]:
        for packet in packets:
            assert packet.pts is not None
            yield Picture(h264.prefixed(h264.annexb_units(bytes(packet))), packet.pts, packet.is_keyframe)


def _encoder(stream: VideoStream, set_id: int, settings: RenderSettings) -> VideoCodecContext:
    import av
    from av.codec.context import Flags

    like = stream.codec_context
    codec = av.CodecContext.create("libx264", "w")
    codec.width, codec.height, codec.pix_fmt = like.width, like.height, like.pix_fmt
    codec.time_base = stream.time_base or Fraction(1, 90_000)
    codec.framerate = stream.average_rate or Fraction(30)
    codec.color_range, codec.colorspace = like.color_range, like.colorspace
    codec.color_primaries, codec.color_trc = like.color_primaries, like.color_trc
    codec.flags |= Flags.global_header
    codec.options = {
        "preset": settings.preset,
        "crf": str(settings.crf),
        "profile": _PROFILES.get(like.profile or "", "high"),
        "bf": "0",
        "x264-params": f"sps-id={set_id}:force-cfr=0",
    }
    codec.open()
    return codec


def new_decoder(stream: VideoStream) -> VideoCodecContext:
    """A decoder apart from the stream's own, so that each edge starts from a clean state."""
    import av

    decoder = av.CodecContext.create("h264", "r")
    decoder.extradata = stream.codec_context.extradata
    decoder.options = dict(stream.codec_context.options)
    decoder.thread_type = "AUTO"
    return decoder
