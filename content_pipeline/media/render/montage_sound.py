"""The montage's sound: copied packets picked by the output clock, or samples encoded once, without a seam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from content_pipeline.media.render.clip import Clip
from content_pipeline.media.render.clip_file import open_clip, sound_packets
from content_pipeline.media.render.sound import AAC_FRAME
from content_pipeline.settings import RenderSettings

if TYPE_CHECKING:
    import av
    import numpy as np
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from numpy.typing import NDArray

    Samples = NDArray[np.int16]


class MontageSound(Protocol):
    """Sound that is written alongside the pictures, up to a given time at a time."""

    def add_to(self, container: OutputContainer) -> None: ...
    def write_until(self, time_s: float) -> None: ...
    def finish(self) -> None: ...


def sound_for(clips: Sequence[Clip], starts: Sequence[Fraction], settings: RenderSettings) -> MontageSound | None:
    """Clips without sound are silent among others; if none has any, the montage has no sound track."""
    kinds = {clip.sound for clip in clips}
    if kinds == {None}:
        return None
    if kinds == {"aac"}:
        return CopiedSound(clips, starts)
    if "aac" in kinds:
        raise ValueError("clips with copied and with encoded sound cannot be joined: encode them all")
    return EncodedSound(clips, starts, settings)


class _Steps:
    """Runs a generator that yields the time it has reached, as far as asked."""

    def __init__(self, steps: Iterator[float]) -> None:
        self._steps = steps
        self._reached = -1.0

    def until(self, time_s: float | None) -> None:
        while time_s is None or self._reached < time_s:
            reached = next(self._steps, None)
            if reached is None:
                return
            self._reached = reached


class CopiedSound:
    """Each clip's packets, from the one nearest to where the sound written so far has come.

    Packets follow each other without a gap; the distance to the pictures is at most half a packet at every
    cut. One packet more goes ahead of the first, which a decoder needs to start and does not play.
    """

    def __init__(self, clips: Sequence[Clip], starts: Sequence[Fraction]) -> None:
        self._clips, self._starts = clips, starts
        self._container: OutputContainer | None = None
        self._stream: AudioStream | None = None
        self._steps = _Steps(self._write())
        self._clock = -AAC_FRAME
        self._rate_hz, self._time_base = 0, Fraction(1)
        self._silence = b""

    def add_to(self, container: OutputContainer) -> None:
        self._container = container
        if len({clip.sound_header for clip in self._clips}) > 1:
            raise ValueError("clips with different sound formats cannot be joined: encode them")
        with open_clip(self._clips[0].path) as opened:
            template = opened.streams.audio[0]
            self._stream = container.add_stream_from_template(template)
            self._rate_hz = template.rate
            self._stream.time_base = self._time_base = Fraction(1, self._rate_hz)
            self._silence = silent_packet(self._rate_hz, template.layout.name)

    def write_until(self, time_s: float) -> None:
        self._steps.until(time_s)

    def finish(self) -> None:
        self._steps.until(None)

    def _write(self) -> Iterator[float]:
        rate = self._rate_hz
        for clip, start, end in zip(self._clips, self._starts, self._starts[1:], strict=False):
            zero, last = round(start * rate), round(end * rate) - AAC_FRAME // 2
            with open_clip(clip.path) as opened:
                for packet in sound_packets(opened):
                    assert packet.pts is not None
                    position = zero + packet.pts
                    if position >= last or self._clock >= last:
                        break
                    if position < self._clock - AAC_FRAME // 2:
                        continue
                    while position - self._clock > AAC_FRAME // 2:
                        yield self._put(self._silence)
                    yield self._put(bytes(packet))
            while self._clock < last:
                yield self._put(self._silence)

    def _put(self, data: bytes) -> float:
        import av

        assert self._stream is not None and self._container is not None
        packet = av.Packet(data)
        packet.time_base = self._time_base
        packet.pts = packet.dts = self._clock
        packet.duration = AAC_FRAME
        packet.is_keyframe = True
        packet.stream = self._stream
        self._container.mux(packet)
        self._clock += AAC_FRAME
        return self._clock / self._rate_hz


def silent_packet(rate_hz: int, layout: str) -> bytes:
    """One AAC packet of silence in a given format, for where a recording has no sound."""
    import av
    import numpy as np

    codec = av.CodecContext.create("aac", "w")
    codec.sample_rate, codec.layout, codec.format = rate_hz, layout, "fltp"
    packets: list[bytes] = []
    for index in range(4):
        zeros = np.zeros((len(codec.layout.channels), AAC_FRAME), np.float32)
        frame = av.AudioFrame.from_ndarray(zeros, format="fltp", layout=layout)
        frame.sample_rate, frame.pts = rate_hz, index * AAC_FRAME
        packets += [bytes(packet) for packet in codec.encode(frame)]
    return packets[-1]


class EncodedSound:
    """All clips' samples on one clock, encoded as one stream: no seams, exact to the sample."""

    def __init__(self, clips: Sequence[Clip], starts: Sequence[Fraction], settings: RenderSettings) -> None:
        self._clips, self._starts, self._settings = clips, starts, settings
        self._container: OutputContainer | None = None
        self._stream: AudioStream | None = None
        self._steps = _Steps(self._write())
        self._clock = 0

    def add_to(self, container: OutputContainer) -> None:
        self._container = container
        self._stream = container.add_stream("aac", rate=self._settings.audio_rate_hz)
        self._stream.layout = "mono" if self._settings.audio_channels == 1 else "stereo"
        self._stream.bit_rate = self._settings.audio_bitrate_kbps * 1000

    def write_until(self, time_s: float) -> None:
        self._steps.until(time_s)

    def finish(self) -> None:
        self._steps.until(None)
        self._encode(None)

    def _write(self) -> Iterator[float]:
        import numpy as np

        rate = self._settings.audio_rate_hz
        for clip, end in zip(self._clips, self._starts[1:], strict=False):
            last = round(end * rate)
            for samples in self._samples(clip):
                yield self._put(samples[: last - self._clock])
            yield self._put(np.zeros((last - self._clock, self._settings.audio_channels), np.int16))

    def _samples(self, clip: Clip) -> Iterator[Samples]:
        import numpy as np

        if clip.sound is None:
            return
        with open_clip(clip.path) as opened:
            for packet in sound_packets(opened):
                yield np.frombuffer(bytes(packet), np.int16).reshape(-1, self._settings.audio_channels)

    def _put(self, samples: Samples) -> float:
        import av

        if len(samples):
            layout = "mono" if self._settings.audio_channels == 1 else "stereo"
            frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout=layout)
            frame.sample_rate, frame.pts = self._settings.audio_rate_hz, self._clock
            frame.time_base = Fraction(1, self._settings.audio_rate_hz)
            self._encode(frame)
            self._clock += len(samples)
        return self._clock / self._settings.audio_rate_hz

    def _encode(self, frame: av.AudioFrame | None) -> None:
        assert self._stream is not None and self._container is not None
        for packet in self._stream.encode(frame):
            self._container.mux(packet)
