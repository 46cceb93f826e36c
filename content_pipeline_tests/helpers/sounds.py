"""Sound made for tests: the same at every run, with bangs at known times, in files written by PyAV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from content_pipeline.media.probe import MediaInfo, describe
from content_pipeline.media.source import Source, open_source

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Piece:
    """Sound, one row per channel, and where on the clock it starts."""

    samples: Samples
    start_s: float = 0.0
    packet_samples: int = 1024  # for codecs without a size of their own


def scene(duration_s: float, rate_hz: int, channels: int = 1, bangs_s: Sequence[float] = (), seed: int = 0) -> Samples:
    """Ambience and a chord throughout, and a bang of 0.3 s at each of `bangs_s`."""
    random = np.random.default_rng(seed)
    time_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    sound = 0.01 * random.standard_normal((channels, len(time_s)))
    for hz, level in ((220.0, 0.08), (277.2, 0.05), (329.6, 0.04), (3520.0, 0.01)):
        sound += level * np.sin(2 * np.pi * hz * time_s) * (1 + 0.3 * np.sin(2 * np.pi * 0.5 * time_s))
    for start_s in bangs_s:
        since_s = time_s - start_s
        envelope = np.where(since_s >= 0, np.exp(-since_s.clip(0) / 0.1), 0.0)
        sound += 0.5 * envelope * random.standard_normal(len(time_s))
    return sound.clip(-0.99, 0.99).astype(np.float32)


def bangs(duration_s: float, every_s: float = 1.7) -> list[float]:
    return [0.5 + every_s * index for index in range(int(duration_s / every_s))]


def write(path: Path, *tracks: Sequence[Piece], rate_hz: int, codec: str = "pcm_s16le", **options: str) -> Path:
    """One audio track per argument, each made of pieces that start where they say."""
    with av.open(str(path), "w", container_options=options) as container:
        streams = [_add_stream(container, codec, rate_hz, len(pieces[0].samples)) for pieces in tracks]
        packets = []
        for stream, pieces in zip(streams, tracks, strict=True):
            for frame in _frames(pieces, rate_hz, stream.codec_context.frame_size):
                packets += stream.encode(frame)
            packets += stream.encode(None)
        for packet in sorted(packets, key=lambda packet: (packet.dts or 0) * packet.time_base):
            container.mux(packet)
    return path


def _add_stream(container: av.container.OutputContainer, codec: str, rate_hz: int, channels: int) -> av.AudioStream:
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    options = {"aac_pns": "0"} if codec == "aac" else {}  # noise drawn by the decoder would differ after a seek
    stream = container.add_stream(codec, rate=rate_hz, layout=layout, options=options)
    assert isinstance(stream, av.AudioStream)
    stream.time_base = Fraction(1, rate_hz)
    stream.codec_context.open()
    return stream


def _frames(pieces: Sequence[Piece], rate_hz: int, codec_size: int) -> Iterator[av.AudioFrame]:
    for piece in pieces:
        channels, length = piece.samples.shape
        size = codec_size or piece.packet_samples
        for start in range(0, length, size):
            block = np.ascontiguousarray(piece.samples[:, start : start + size])
            frame = av.AudioFrame.from_ndarray(block, "fltp", {1: "mono", 2: "stereo", 6: "5.1"}[channels])
            frame.sample_rate = rate_hz
            frame.time_base = Fraction(1, rate_hz)
            frame.pts = round(piece.start_s * rate_hz) + start
            yield frame


def repeat(source: Path, target: Path, times: int, overlap: int = 0) -> Path:
    """The packets of the first track over and over: a long recording without encoding one.

    With `overlap`, each time starts so many ticks before the last one ends, as in recordings that were joined.
    """
    with av.open(str(source)) as reading, av.open(str(target), "w") as writing:
        stream = reading.streams.audio[0]
        copy = writing.add_stream_from_template(stream)
        packets = [(bytes(packet), packet.duration) for packet in reading.demux(stream) if packet.size]
        clock = 0
        for _ in range(times):
            for data, duration in packets:
                packet = av.Packet(data)
                packet.stream, packet.time_base = copy, stream.time_base or Fraction(1, stream.rate)
                packet.pts = packet.dts = clock
                packet.duration = duration
                writing.mux(packet)
                clock += duration or 0
            clock -= overlap
    return target


def mark_dirty(path: Path, first: int, count: int) -> None:
    """Overwrite the payload of `count` packets, from number `first` on."""
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(audio=0) if packet.size]
        places = [(packet.pos, packet.size) for packet in packets[first : first + count]]
    with path.open("r+b") as file:
        for position, size in places:
            assert position is not None
            file.seek(position)
            file.write(b"\xff" * size)


@contextmanager
def opened(path: Path) -> Iterator[tuple[Source, MediaInfo]]:
    """A recording and its description; sound without a picture is good enough here."""
    with open_source(path) as source:
        with source.container() as container:
            info = describe(container)
        yield source, info
