"""One picture per highlight, for as little decoding as the recording allows.

A keyframe near the moment to be shown costs one frame. Where there is none, frames are decoded from the keyframe
before it, within a budget for the whole sheet. Past the budget the nearest keyframe of the highlight stands in; where
it has none the one before it does, and says when it is from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal

from PIL import Image

from content_pipeline.errors import NoPicture, printable
from content_pipeline.media.damage import packets, until_damage

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    from content_pipeline.media.probe import MediaInfo, VideoTrack
    from content_pipeline.media.source import Source
    from content_pipeline.media.spans import Scene

    VideoPacket = Packet[VideoStream]

# About four seconds of one core: two and a half minutes of 720p30.
FORWARD_BUDGET_PIXELS = 4_500 * 1280 * 720
# MPEG-TS has no index: a seek lands somewhat behind where it was asked to, perhaps past the keyframe.
_STEPS_BACK_S = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 60.0, float("inf"))
_THREADS = 2
# A keyframe this near to a moment shows it well enough: fights last longer.
NEAR_S = 1.0


@dataclass(frozen=True, eq=False)
class Still:
    """A picture, right way up, and the moment of the recording it shows."""

    image: Image.Image
    at_s: float


def stills(source: Source, info: MediaInfo, scenes: Sequence[Scene], size: tuple[int, int]) -> list[Still | None]:
    """A picture for each scene, fitted into `size`; None where nothing of it could be decoded."""
    video = info.video
    if video is None:
        raise NoPicture(f"{printable(source.path)} holds no picture to show")
    pictures: dict[Scene, Still | None] = {}
    with _cursor(source, video, "NONKEY", threads=1) as keys, _cursor(source, video, "NONREF", _THREADS) as forward:
        reader = _StillReader(info, video, keys, forward)
        # In the order of time, so that one pass through a file without keyframes serves every highlight.
        for scene in sorted(set(scenes), key=lambda scene: (scene.at_s, scene)):
            frame = reader.frame_of(scene)
            image = None if frame is None else _picture(frame, keys.sample_aspect, video.rotation_degrees, size)
            if frame is None or image is None:
                pictures[scene] = None
            else:
                pictures[scene] = Still(image, keys.time_s(frame) - info.origin_s)
    return [pictures[scene] for scene in scenes]


class _StillReader:
    def __init__(self, info: MediaInfo, video: VideoTrack, keys: _Cursor, forward: _Cursor) -> None:
        self._info = info
        self._frame_rate = video.frame_rate if video.frame_rate > 0 else 60.0
        self._keys = keys
        self._forward = forward
        self._budget_pixels = float(FORWARD_BUDGET_PIXELS)

    def frame_of(self, scene: Scene) -> VideoFrame | None:
        start_s, end_s = (self._info.origin_s + edge for edge in (scene.span.start_s, scene.span.end_s))
        moment_s = self._info.origin_s + scene.at_s
        keyframe, next_keyframe = self._keys.keyframe_before(moment_s), self._keys.keyframe_after(moment_s, end_s)
        around = [frame for frame in (keyframe, next_keyframe) if frame is not None]
        inside = [frame for frame in around if self._keys.time_s(frame) >= start_s]
        nearest = min(inside, key=lambda frame: abs(self._keys.time_s(frame) - moment_s), default=None)
        if nearest is not None and abs(self._keys.time_s(nearest) - moment_s) <= NEAR_S:
            return nearest
        if keyframe is None or self._is_too_dear(keyframe, moment_s):
            return keyframe if nearest is None else nearest
        decoded = self._decoded_in(start_s, end_s, moment_s, self._keys.time_s(keyframe))
        return nearest if decoded is None else decoded

    def _is_too_dear(self, keyframe: VideoFrame, moment_s: float) -> bool:
        """Whether decoding up to a moment passes what is left of the budget; else it is spent."""
        way_s = moment_s - self._forward.resumed_at_s(self._keys.time_s(keyframe), moment_s)
        pixels = (way_s * self._frame_rate + 1) * keyframe.width * keyframe.height
        if pixels > self._budget_pixels:
            return True
        self._budget_pixels -= pixels
        return False

    def _decoded_in(self, start_s: float, end_s: float, moment_s: float, keyframe_s: float) -> VideoFrame | None:
        # The rate is what the file claims: twice as many frames is a variable rate, more is a lie.
        most_frames = int(2 * (moment_s - keyframe_s) * self._frame_rate) + 64
        way = self._forward.decode_to(keyframe_s, moment_s, most_frames)
        for frame in (way.shown, way.following):
            if frame is not None and start_s <= self._forward.time_s(frame) < end_s:
                return frame
        # A still scene may hold one frame for longer than a highlight; a hole in the file looks alike, but for damage.
        return way.shown if way.following is not None and not way.is_damaged else None


@contextmanager
def _cursor(
    source: Source, video: VideoTrack, skip_frame: Literal["NONKEY", "NONREF"], threads: int
) -> Iterator[_Cursor]:
    from av.stream import Discard
    from av.video.stream import VideoStream

    with source.container() as container:
        stream = container.streams[video.index]
        if not isinstance(stream, VideoStream):
            raise NoPicture(f"{printable(source.path)} has no picture in stream {video.index}")
        for other in container.streams:
            other.discard = Discard.default if other is stream else Discard.all
        stream.codec_context.skip_frame = skip_frame
        stream.codec_context.thread_count = threads
        yield _Cursor(container, stream)


@dataclass(frozen=True, eq=False)
class _Way:
    """What decoding forward met: the frame a player shows at the target, and the one after it."""

    shown: VideoFrame | None
    following: VideoFrame | None
    is_damaged: bool


class _Cursor:
    """A place in the video stream. Damage on the way is stepped over: no frame is an answer, never an error."""

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        import av

        self._container = container
        self._stream = stream
        self._tick_s = float(stream.time_base or 1 / av.time_base)
        self._first_s = (stream.start_time or 0) * self._tick_s
        self._last: VideoFrame | None = None
        self._is_damaged = False
        self._damage = av.error.FFmpegError

    @property
    def sample_aspect(self) -> float:
        return float(self._stream.codec_context.sample_aspect_ratio or 1) or 1.0

    def time_s(self, item: VideoFrame | VideoPacket) -> float:
        """On the file's clock. AVI stamps only the order of decoding."""
        stamp = item.pts if item.pts is not None else item.dts
        return 0.0 if stamp is None else stamp * self._tick_s

    def keyframe_before(self, target_s: float) -> VideoFrame | None:
        """The nearest keyframe at or before `target_s`."""
        packet = self._seek_before(target_s)
        return None if packet is None else self._decoded_alone(packet)

    def keyframe_after(self, target_s: float, end_s: float) -> VideoFrame | None:
        """The first keyframe in `[target_s, end_s)`."""
        packet = self._next_keyframe(end_s) if self._seek(target_s, backward=False) else None
        return None if packet is None or self.time_s(packet) < target_s else self._decoded_alone(packet)

    def resumed_at_s(self, keyframe_s: float, target_s: float) -> float:
        """Where decoding towards `target_s` starts: here, if here is on the way."""
        if self._last is not None and keyframe_s <= self.time_s(self._last) <= target_s:
            return self.time_s(self._last)
        return keyframe_s

    def decode_to(self, keyframe_s: float, target_s: float, most_frames: int) -> _Way:
        """Decode until a frame lies past `target_s`."""
        first = None
        if self._last is None or self.resumed_at_s(keyframe_s, target_s) != self.time_s(self._last):
            first = self._seek_before(target_s)
            if first is None:
                return _Way(None, None, is_damaged=True)
        self._is_damaged = False
        shown = self._last
        for frame in islice(self._frames(first), most_frames):
            self._last = frame
            if self.time_s(frame) > target_s:
                return _Way(shown, frame, self._is_damaged)
            shown = frame
        return _Way(shown, None, self._is_damaged)

    def _frames(self, first: VideoPacket | None) -> Iterator[VideoFrame]:
        for packet in chain([] if first is None else [first], self._packets()):
            for frame in self._decoded(packet):
                if frame.is_corrupt:
                    self._is_damaged = True
                else:
                    yield frame

    def _decoded(self, packet: VideoPacket | None) -> list[VideoFrame]:
        try:
            return self._stream.codec_context.decode(packet)
        except self._damage:
            self._is_damaged = True
            return []

    def _seek_before(self, target_s: float) -> VideoPacket | None:
        """The keyframe packet at or before `target_s`; what follows it is read next."""
        for back_s in _STEPS_BACK_S:
            aim_s = max(self._first_s, target_s - back_s)
            packet = self._next_keyframe(target_s + self._tick_s) if self._seek(aim_s, backward=True) else None
            if packet is not None or aim_s == self._first_s:
                return packet
        return None

    def _next_keyframe(self, end_s: float) -> VideoPacket | None:
        """The next keyframe packet, if it lies before `end_s`."""
        for packet in self._packets():
            if self.time_s(packet) >= end_s:
                break
            if packet.is_keyframe and packet.size:
                return packet
        return None

    def _packets(self) -> Iterator[VideoPacket]:
        with until_damage():
            yield from packets(self._container, self._stream)

    def _decoded_alone(self, packet: VideoPacket) -> VideoFrame | None:
        """The keyframe without what follows it: the decoder is drained, as it may hold a frame back."""
        frames = [*self._decoded(packet), *self._decoded(None)]
        self._stream.codec_context.flush_buffers()
        return next((frame for frame in frames if not frame.is_corrupt), None)

    def _seek(self, target_s: float, *, backward: bool) -> bool:
        self._last = None
        try:
            self._container.seek(round(target_s / self._tick_s), stream=self._stream, backward=backward)
        except self._damage:
            return False
        return True


def _picture(frame: VideoFrame, sample_aspect: float, turn: int, size: tuple[int, int]) -> Image.Image | None:
    import av

    room = size if turn % 180 == 0 else size[::-1]
    width, height = _fitted_size(frame.width * sample_aspect, frame.height, room)
    try:
        small = frame.reformat(width, height, "rgb24", interpolation="AREA")
        return _turned(Image.fromarray(small.to_ndarray()), turn)
    except (av.error.FFmpegError, ValueError):
        return None  # a pixel format that cannot be converted


def _fitted_size(width: float, height: float, room: tuple[int, int]) -> tuple[int, int]:
    scale = min(room[0] / width, room[1] / height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _turned(image: Image.Image, clockwise_degrees: int) -> Image.Image:
    quarter_turns = {
        0: None,
        90: Image.Transpose.ROTATE_270,
        180: Image.Transpose.ROTATE_180,
        270: Image.Transpose.ROTATE_90,
    }
    if clockwise_degrees not in quarter_turns:
        return image.rotate(-clockwise_degrees, Image.Resampling.BICUBIC, expand=True)
    turn = quarter_turns[clockwise_degrees]
    return image if turn is None else image.transpose(turn)
