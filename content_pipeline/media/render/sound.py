"""The sound of one clip, at its true positions: the recording's own AAC packets, or samples.

Positions follow the stamps, never sample counts: sound may start late, have holes, or sit on a
millisecond clock. Where there is none, there is silence of the same length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from content_pipeline.media.damage import packets, seek_back, until_damage
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render.clip_file import ClipWriter, SoundKind
from content_pipeline.media.render.ticks import rescaled
from content_pipeline.media.spans import Span
from content_pipeline.settings import RenderSettings

if TYPE_CHECKING:
    import av
    import numpy as np
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from numpy.typing import NDArray

    Samples = NDArray[np.int16]

AAC_FRAME = 1024
MARGIN_S = 0.25
"""Sound kept on both sides of a clip, so that the join can pick packets by its own clock."""
HOLE_S = 0.25
PREROLL_S = 0.2
"""Sound decoded before a clip: the first packets after a seek decode badly."""
_BLOCK_SAMPLES = 48_000


@dataclass(frozen=True)
class SoundReport:
    """What was met while reading: holes on the recording's clock, and packets that could not be decoded."""

    holes: tuple[Span, ...] = ()
    damaged: int = 0


def kind_for(stream: AudioStream) -> SoundKind:
    """Packets are copied when any player takes them as they are: plain AAC with its header in the container."""
    context = stream.codec_context
    plain = context.name == "aac" and context.profile == "LC" and bool(context.extradata)
    return "aac" if plain and len(stream.layout.channels) <= 6 and stream.rate in _COPIED_RATES_HZ else "pcm"


_COPIED_RATES_HZ = (32000, 44100, 48000)
"""Cuts in copied sound fall on packets: below these rates half a packet would be heard as out of step."""


class PacketClock:
    """Turns stamps into exact sample positions.

    A container's clock may be coarser than a sample (Matroska counts milliseconds): packets that follow
    each other within its rounding are taken as seamless, so that rounding never adds up.
    """

    def __init__(self, rate_hz: int, time_base: Fraction) -> None:
        self._scale = time_base * rate_hz
        self._tolerance = max(2, round(2 * self._scale))
        self._expected: int | None = None

    def position(self, pts: int, duration: int) -> int:
        position = rescaled(pts, self._scale)
        if self._expected is not None and abs(position - self._expected) <= self._tolerance:
            position = self._expected
        self._expected = position + duration
        return position


def write_aac(container: InputContainer, info: MediaInfo, track: int, span: Span, writer: ClipWriter) -> SoundReport:
    """Copy the packets of a span and a margin around it. `span.start_s` becomes the clip's start."""
    stream = container.streams.audio[track]
    rate, time_base = stream.rate, stream.time_base
    assert time_base is not None
    zero = round((info.origin_s + span.start_s) * rate)
    first, last = -round(MARGIN_S * rate), round((span.duration_s + MARGIN_S) * rate)
    clock, holes, damaged = PacketClock(rate, time_base), [], 0
    end: int | None = None
    for packet in _packets(container, stream, info.origin_s + span.start_s - MARGIN_S):
        assert packet.pts is not None
        position = clock.position(packet.pts, AAC_FRAME) - zero
        if end is not None and position - end > HOLE_S * rate:
            holes.append(Span(span.start_s + end / rate, span.start_s + position / rate))
        end = position + AAC_FRAME
        if position > last:
            break
        if end >= first:
            damaged += packet.is_corrupt
            writer.write_sound_packet(bytes(packet), position, AAC_FRAME)
    return SoundReport(tuple(holes), damaged)


def _packets(container: InputContainer, stream: AudioStream, from_s: float) -> Iterator[Packet[AudioStream]]:
    """The track's packets from a time on the container's clock; what cannot be read ends them."""
    with until_damage():
        seek_back(container, stream, from_s)
        for packet in packets(container, stream):
            if packet.size and packet.pts is not None:
                yield packet


def write_pcm(
    container: InputContainer, info: MediaInfo, track: int, span: Span, settings: RenderSettings, writer: ClipWriter
) -> SoundReport:
    """Decode a span to the contract's rate and channels: exactly as many samples as it lasts."""
    import numpy as np

    rate_hz, channels = settings.audio_rate_hz, settings.audio_channels
    layout = "mono" if channels == 1 else "stereo"
    total = round(span.duration_s * rate_hz)
    reader = _SampleReader(container, info, track, span, settings)
    written = 0
    for position, samples in reader.blocks():
        start, stop = max(position, written), min(position + len(samples), total)
        if stop <= start:
            continue
        for block in (np.zeros((start - written, channels), np.int16), samples[start - position : stop - position]):
            _write_block(writer, block, rate_hz, layout)
        written = stop
        if written >= total:
            break
    _write_block(writer, np.zeros((total - written, channels), np.int16), rate_hz, layout)
    writer.write_samples(None)
    return reader.report()


def _write_block(writer: ClipWriter, block: Samples, rate_hz: int, layout: str) -> None:
    import av

    for first in range(0, len(block), _BLOCK_SAMPLES):
        part = block[first : first + _BLOCK_SAMPLES]
        frame = av.AudioFrame.from_ndarray(part.reshape(1, -1), format="s16", layout=layout)
        frame.sample_rate = rate_hz
        writer.write_samples(frame)


class _SampleReader:
    """Decodes one track of a span into blocks of samples, each with its position after the span's start."""

    def __init__(
        self, container: InputContainer, info: MediaInfo, track: int, span: Span, settings: RenderSettings
    ) -> None:
        self._container, self._track, self._span = container, track, span
        self._zero_s = info.origin_s + span.start_s
        self._end_s = info.origin_s + span.end_s
        self._settings = settings
        self._holes: list[Span] = []
        self._damaged = 0

    def report(self) -> SoundReport:
        return SoundReport(tuple(self._holes), self._damaged)

    def blocks(self) -> Iterator[tuple[int, Samples]]:
        """Stretches of seamless sound are resampled as one; a hole or another format starts a new one."""
        from content_pipeline.media.audio.decode import sound_format

        rate_hz = self._settings.audio_rate_hz
        resampler, position = self._resampler(), 0
        expected_s: float | None = None
        given: tuple[str, str, int] | None = None
        for frame in self._frames():
            assert frame.pts is not None and frame.time_base is not None
            start_s = float(frame.pts * frame.time_base)
            if expected_s is None or abs(start_s - expected_s) > 0.01 or sound_format(frame) != given:
                if expected_s is not None:
                    yield position, _samples(resampler.resample(None), self._settings.audio_channels)
                    if start_s - expected_s > HOLE_S:
                        offset_s = self._zero_s - self._span.start_s
                        self._holes.append(Span(expected_s - offset_s, start_s - offset_s))
                resampler, position = self._resampler(), round((start_s - self._zero_s) * rate_hz)
                expected_s, given = start_s, sound_format(frame)
            expected_s += frame.samples / frame.sample_rate
            samples = _samples(resampler.resample(frame), self._settings.audio_channels)
            yield position, samples
            position += len(samples)
            if start_s > self._end_s + 0.1:
                return
        if expected_s is not None:
            yield position, _samples(resampler.resample(None), self._settings.audio_channels)

    def _resampler(self) -> av.AudioResampler:
        import av

        layout = "mono" if self._settings.audio_channels == 1 else "stereo"
        return av.AudioResampler(format="s16", layout=layout, rate=self._settings.audio_rate_hz)

    def _frames(self) -> Iterator[av.AudioFrame]:
        """Decoded sound; a packet that cannot be decoded leaves its place silent and is counted."""
        import av

        stream = self._container.streams.audio[self._track]
        for packet in _packets(self._container, stream, self._zero_s - PREROLL_S):
            try:
                decoded = packet.decode()
            except av.error.FFmpegError:
                self._damaged += 1
                continue
            for frame in decoded:
                if frame.pts is not None and frame.samples:
                    yield frame


def _samples(frames: list[av.AudioFrame], channels: int) -> Samples:
    import numpy as np

    parts = [frame.to_ndarray().reshape(-1, channels) for frame in frames]
    return np.concatenate(parts) if parts else np.zeros((0, channels), np.int16)
