"""Frames of sound out of a container: nothing but audio is read, and damage is counted, never raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import av
import numpy as np
from av.stream import Discard

from content_pipeline.media.audio.timeline import Grid, Timeline
from content_pipeline.media.damage import is_from_disk, packets, until_damage
from content_pipeline.media.mp4.excerpt import AudioExcerpts
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.source import Source

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from numpy.typing import NDArray

    Samples = NDArray[np.float32]

PREROLL_S = 1.0  # what a decoder needs to hear before a position it did not come to by itself

_MOST_DEMUX_ERRORS = 1_000  # a demuxer that makes no progress would go on for ever


@contextmanager
def audio_only(source: Source, *tracks: int) -> Iterator[tuple[InputContainer, list[AudioStream]]]:
    """The recording with every packet skipped that does not belong to `tracks`."""
    with source.container() as container:
        streams = [container.streams.audio[track] for track in tracks]
        for stream in container.streams:
            if stream not in streams:
                stream.discard = Discard.all
        yield container, streams


class FrameReader:
    """Decodes one track; a packet that cannot be decoded leaves a hole in the time stamps and is counted."""

    def __init__(self, source: Source, info: MediaInfo, track: int) -> None:
        self.bad_packets = 0
        self._source = source
        self._track = track
        self._origin_s = info.origin_s
        self._excerpts = AudioExcerpts.of(source, info, track)

    def frames(self, start_s: float = 0.0) -> Iterator[av.AudioFrame]:
        """All frames from shortly before `start_s`."""
        with ExitStack() as stack:
            decoder: AudioStream | None = None
            for container, stream in self._opened(start_s - PREROLL_S, stack):
                if decoder is None:
                    decoder = stream  # one for all windows: it remembers what it heard
                for packet in self._packets_from(start_s - PREROLL_S, container, stream):
                    try:
                        yield from decoder.decode(packet)
                    except av.error.FFmpegError:
                        self.bad_packets += 1
            if decoder is not None:
                with suppress(av.error.FFmpegError):
                    yield from decoder.decode(None)

    def grid(self) -> Grid | None:
        """Where this track's frames stand, from the first two; None if stamps say so by themselves, or not at all."""
        positions = []
        for frame in self.frames():
            if frame.pts is None or not frame.time_base or (1 / (frame.time_base * frame.sample_rate)).denominator == 1:
                return None
            positions.append((round((frame.pts * frame.time_base - self._origin_s) * frame.sample_rate), frame.samples))
            if len(positions) == 2:
                (first, length), (_, step) = positions
                return Grid(first + length, step)
        return None

    def lag_at(self, start_s: float, first: av.AudioFrame) -> int | None:
        """By how much the stamp of the first frame of `frames(start_s)` is ahead of decoding from the very start."""
        if self._excerpts is None:
            return None
        run_up_s = start_s - PREROLL_S
        if run_up_s <= 0:
            return 0
        return self._excerpts.lag_at(run_up_s + self._origin_s, first.sample_rate, first.samples)

    def _opened(self, run_up_s: float, stack: ExitStack) -> Iterator[tuple[InputContainer, AudioStream]]:
        """The recording from `run_up_s` or a little before on: whole, or window by window where that is possible.

        The first window stays open: the decoder that came with it goes on.
        """
        if self._excerpts is None:
            container, (stream,) = stack.enter_context(audio_only(self._source, self._track))
            if run_up_s > 0:
                self._seek(container, stream, run_up_s)
            yield container, stream
            return
        for number, head in enumerate(self._excerpts.heads(run_up_s + self._origin_s if run_up_s > 0 else 0.0)):
            with ExitStack() as window:
                container = (window if number else stack).enter_context(self._source.container(head))
                yield container, container.streams.audio[0]

    def _packets_from(
        self, at_s: float, container: InputContainer, stream: AudioStream
    ) -> Iterator[av.Packet[AudioStream]]:
        all_packets = self._packets(container, stream)
        if at_s > 0:
            for packet in all_packets:
                if packet.pts is None or self._at_s(packet) >= at_s:
                    yield packet
                    break
        yield from all_packets

    def _seek(self, container: InputContainer, stream: AudioStream, at_s: float) -> None:
        """Go to the last packet before `at_s`; back to the start where the container's index leads past it."""
        if stream.time_base is None:
            return
        try:
            container.seek(int((at_s + self._origin_s) / stream.time_base), stream=stream)
            first = next(self._packets(container, stream), None)
            if first is not None and first.pts is not None and self._at_s(first) <= at_s:
                return
            container.seek(stream.start_time or 0, stream=stream)
        except av.error.FFmpegError:
            try:
                container.seek(0)
            except av.error.FFmpegError as error:
                self._count_damage(error)

    def _packets(self, container: InputContainer, stream: AudioStream) -> Iterator[av.Packet[AudioStream]]:
        """All packets; the empty one at the end, which tells the decoder to let go of what it has, is left out."""
        errors = 0
        following = packets(container, stream)
        while errors < _MOST_DEMUX_ERRORS:
            try:
                packet = next(following)
                if packet.size:
                    yield packet
            except StopIteration:
                return
            except av.error.FFmpegError as error:
                self._count_damage(error)
                errors += 1
                following = packets(container, stream)

    def _count_damage(self, error: av.error.FFmpegError) -> None:
        """What the recording is to blame for is counted; what the disk may be to blame for is raised."""
        if is_from_disk(error):
            raise error
        self.bad_packets += 1

    def _at_s(self, packet: av.Packet[AudioStream]) -> float:
        assert packet.pts is not None
        return float(packet.pts * packet.time_base) - self._origin_s


def frames_between(
    container: InputContainer, streams: list[AudioStream], start_s: float, end_s: float
) -> Iterator[tuple[int, av.AudioFrame]]:
    """Frames of several tracks between two stamps, roughly, each with its stream's index; damage is passed over."""
    with until_damage():
        container.seek(round(start_s * av.time_base))
        for packet in packets(container, *streams):
            if packet.pts is not None and packet.pts * packet.time_base >= end_s:
                return
            with until_damage():
                for frame in packet.decode():
                    if isinstance(frame, av.AudioFrame):
                        yield packet.stream_index, frame


class MonoQueue:
    """Gathers frames and hands them out as one mono array: an array per frame costs more than decoding it."""

    def __init__(self, first: av.AudioFrame) -> None:
        self.samples = 0
        self._rate_hz = first.sample_rate
        self._tick_s = 0.0 if first.time_base is None else float(first.time_base)
        self._like = sound_format(first)
        self._channels = first.layout.nb_channels
        self._time_base = first.time_base
        self._fifo = av.AudioFifo()
        self._converter: av.AudioResampler | None = None
        self._converts: tuple[str, str, int] | None = None

    def stamp_s(self, frame: av.AudioFrame) -> float | None:
        pts = frame.pts
        return None if pts is None else pts * self._tick_s

    def has_rate_of(self, frame: av.AudioFrame) -> bool:
        return frame.sample_rate == self._rate_hz

    def put_next(self, frame: av.AudioFrame, timeline: Timeline) -> bool:
        """Append a frame that follows the last one as most do; say no to any other. Runs once per frame: kept short."""
        pts = frame.pts
        is_next = frame.sample_rate == self._rate_hz and timeline.continues(
            None if pts is None else pts * self._tick_s, frame.samples
        )
        if is_next:
            self.put(frame)
        return is_next

    def put(self, frame: av.AudioFrame) -> None:
        """Append a frame of the queue's rate; the channels of a stream may change on the way."""
        frame.pts = None  # positions are the timeline's business
        self.samples += frame.samples
        # PyAV's queue looks at format and rate, but takes missing channels from memory that is not the frame's.
        if frame.layout.nb_channels == self._channels:
            with suppress(ValueError):
                self._fifo.write(frame)
                return
        for part in self.converted(frame):
            self._fifo.write(part)

    def converted(self, frame: av.AudioFrame) -> list[av.AudioFrame]:
        """The frame in the first one's format, layout and rate."""
        if frame.layout.nb_channels != self._channels:
            frame = self._with_channels_of_the_first(frame)
        given = sound_format(frame)
        if self._converter is None or self._converts != given:
            self._converter, self._converts = av.AudioResampler(*self._like), given
        parts = self._converter.resample(frame)
        for part in parts:
            part.pts = None
            part.time_base = self._time_base
        return parts

    def _with_channels_of_the_first(self, frame: av.AudioFrame) -> av.AudioFrame:
        """All channels alike: their mean stays what it was, which no mixer promises."""
        alike = np.tile(to_mono(frame), (self._channels, 1))
        spread = av.AudioFrame.from_ndarray(alike, "fltp", self._like[1])
        spread.sample_rate = frame.sample_rate
        return spread

    def take(self) -> Samples:
        self.samples = 0
        frame = self._fifo.read()
        return np.zeros(0, np.float32) if frame is None else to_mono(frame)

    def mono(self, frame: av.AudioFrame) -> Samples:
        return to_mono(frame)


def sound_format(frame: av.AudioFrame) -> tuple[str, str, int]:
    """What may change on the way through a stream, and one resampler takes only one of."""
    return frame.format.name, frame.layout.name, frame.sample_rate


def to_mono(frame: av.AudioFrame) -> Samples:
    """The mean of the channels, full scale at 1; what is no number becomes silence.

    Decoders of clipped recordings overshoot, many times over for the worst: what no player plays is cut off.
    """
    channels = _channels(frame)
    mono = np.array(channels[0]) if len(channels) == 1 else channels[0] + channels[1]
    for channel in channels[2:]:
        mono += channel
    if len(channels) > 1:
        mono *= np.float32(1 / len(channels))
    if not np.isfinite(np.einsum("i,i->", mono, mono)):  # the quickest sum
        mono = np.nan_to_num(mono, posinf=0.0, neginf=0.0)
    return np.clip(mono, -1, 1, out=mono)


_PLANAR = {"fltp": "f4", "dblp": "f8", "s16p": "i2", "s32p": "i4", "s64p": "i8", "u8p": "u1"}


def _channels(frame: av.AudioFrame) -> list[Samples]:
    count = frame.layout.nb_channels
    if frame.format.is_planar:
        # With more than eight channels PyAV finds planes behind the last one, whose memory is somebody else's.
        kind = _PLANAR[frame.format.name]
        planes = [np.frombuffer(memoryview(plane), kind, frame.samples) for plane in frame.planes[:count]]
        if kind == "f4":  # what most decoders put out needs no copy
            return planes
        channels = np.stack(planes)
    else:
        channels = frame.to_ndarray().reshape(-1, count).T
    if channels.dtype.kind in "iu":
        full_scale = np.float32(2 ** (8 * channels.dtype.itemsize - 1))
        middle = np.float32(0) if channels.dtype.kind == "i" else full_scale
        channels = (channels.astype(np.float32) - middle) / full_scale
    return list(channels.astype(np.float32, copy=False))
