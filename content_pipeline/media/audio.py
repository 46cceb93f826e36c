"""The sound of a recording as mono blocks at 22,050 Hz, in constant memory, damage included.

Positions follow the time stamps, not the count of samples: silence stands where a track starts late or has a
gap, overlaps are dropped, and a packet that cannot be decoded is counted and becomes silence. Video is skipped
by the demuxer: it is neither read nor decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves import SAMPLE_RATE_HZ
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.source import Source
from content_pipeline.media.timeline import Timeline

if TYPE_CHECKING:
    from av import AudioFrame
    from numpy.typing import NDArray

    from content_pipeline.media.decode import MonoQueue

    Samples = NDArray[np.float32]

BLOCK_SAMPLES = 1 << 16

# The loudest track is found by ear: all of a short recording, samples of a long one.
_LISTEN_WINDOWS = 60
_LISTEN_S = 5.0


@dataclass(frozen=True)
class AudioReport:
    """What became of a track. `decoded_s` runs from the first sound to the last, gaps included;
    `missing_s` is the part of it that damage turned into silence."""

    track: int
    start_s: float
    decoded_s: float
    declared_s: float | None
    bad_packets: int
    missing_s: float

    @property
    def end_s(self) -> float:
        return self.start_s + self.decoded_s


class MonoBlocks:
    """The sound of one track from `start_s` (whole seconds keep all rates in step) to `end_s` or its end.

    `report` says what became of the track; it is complete once all blocks have been read.
    """

    def __init__(
        self, source: Source, info: MediaInfo, track: int, start_s: float = 0.0, end_s: float | None = None
    ) -> None:
        self._source = source
        self._info = info
        self._track = track
        self._start_s = start_s
        self._end_s = end_s
        self._bad_packets = 0
        self._timeline: Timeline | None = None

    @property
    def report(self) -> AudioReport:
        timeline = self._timeline
        return AudioReport(
            track=self._track,
            start_s=0.0 if timeline is None else timeline.start_s,
            decoded_s=0.0 if timeline is None else timeline.end_s - timeline.start_s,
            declared_s=self._info.audio[self._track].declared_duration_s,
            bad_packets=self._bad_packets,
            missing_s=0.0 if timeline is None else timeline.missing_s,
        )

    @property
    def is_certain(self) -> bool:
        """Whether blocks from the middle of the track stand where decoding it from the start would put them."""
        return self._timeline is None or self._timeline.is_certain

    def __iter__(self) -> Iterator[Samples]:
        """Resampled and cut to length as `librosa.load` does it (soxr, high quality)."""
        import soxr

        resampler, taken, given = None, 0, 0
        for rate_hz, block in self._native_blocks():
            taken += len(block)
            if rate_hz == SAMPLE_RATE_HZ:
                yield block
                continue
            if resampler is None:
                resampler = soxr.ResampleStream(rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32", quality="HQ")
            resampled = resampler.resample_chunk(block)
            given += len(resampled)
            yield resampled
        if resampler is not None:
            rest = np.zeros(max(0, -(-taken * SAMPLE_RATE_HZ // rate_hz) - given), np.float32)
            tail = resampler.resample_chunk(np.zeros(0, np.float32), last=True)[: len(rest)]
            rest[: len(tail)] = tail
            yield rest

    def _native_blocks(self) -> Iterator[tuple[int, Samples]]:
        """Mono blocks with their rate, the track's own, and no hole between them."""
        from content_pipeline.media.decode import FrameReader, MonoQueue, audio_only

        with audio_only(self._source, self._track) as (container, (stream,)):
            reader = FrameReader(self._source, container, stream, self._info.origin_s)
            grid = reader.grid() if self._start_s > 0 else None
            queue: MonoQueue | None = None
            for frame in reader.frames(self._start_s):
                if queue is None or self._timeline is None:
                    self._timeline = Timeline(self._info, frame.sample_rate, self._start_s, self._end_s, grid)
                    queue = MonoQueue(frame)
                is_plain = reader.bad_packets == self._bad_packets and queue.has_rate_of(frame)
                if is_plain and self._timeline.continues(queue.stamp_s(frame), frame.samples):
                    queue.put(frame)
                else:
                    is_after_damage = reader.bad_packets > self._bad_packets
                    self._bad_packets = reader.bad_packets
                    yield from _placed(frame, queue, self._timeline, is_after_damage)
                if queue.samples >= BLOCK_SAMPLES:
                    yield from _cut(queue.take(), self._timeline)
                if self._timeline.is_full:
                    break
            self._bad_packets = reader.bad_packets
            if queue is not None and self._timeline is not None:
                yield from _cut(queue.take(), self._timeline)


def _placed(
    frame: AudioFrame, queue: MonoQueue, timeline: Timeline, is_after_damage: bool
) -> Iterator[tuple[int, Samples]]:
    """Queue a frame where its stamp says; what the queue held comes out first if there is a gap or an overlap."""
    stamp_s = queue.stamp_s(frame)
    for part in [frame] if queue.has_rate_of(frame) else queue.converted(frame):
        placement = timeline.place(stamp_s, part.samples, is_after_damage)
        stamp_s = None  # what a conversion puts out in several parts follows itself
        if placement.gap or placement.overlap:
            yield from _cut(queue.take(), timeline)
        for start in range(0, placement.gap, BLOCK_SAMPLES):
            yield from _cut(np.zeros(min(BLOCK_SAMPLES, placement.gap - start), np.float32), timeline)
        if placement.overlap:
            yield from _cut(queue.mono(part)[placement.overlap :], timeline)
        else:
            queue.put(part)


def _cut(block: Samples, timeline: Timeline) -> Iterator[tuple[int, Samples]]:
    wanted = block[timeline.wanted(len(block))]
    if len(wanted):
        yield timeline.rate_hz, wanted


def mono_blocks(
    source: Source, info: MediaInfo, track: int, start_s: float = 0.0, end_s: float | None = None
) -> MonoBlocks:
    return MonoBlocks(source, info, track, start_s, end_s)


def loudest_track(source: Source, info: MediaInfo) -> int:
    """The track with the most power; the first where there is no difference, or no sound at all."""
    tracks = range(len(info.audio))
    if len(tracks) < 2:
        return 0
    windows = _listening_windows(info.duration_s)
    power = _mean_power(source, info, windows)
    if not any(power) and len(windows) > 1:
        power = _mean_power(source, info, [(0.0, float("inf"))])  # what sounds may lie between the samples
    return max(tracks, key=lambda track: power[track])


def _listening_windows(duration_s: float) -> list[tuple[float, float]]:
    if duration_s <= 2 * _LISTEN_WINDOWS * _LISTEN_S:
        return [(0.0, float("inf"))]
    step_s = duration_s / _LISTEN_WINDOWS
    return [(index * step_s, index * step_s + _LISTEN_S) for index in range(_LISTEN_WINDOWS)]


def _mean_power(source: Source, info: MediaInfo, windows: list[tuple[float, float]]) -> list[float]:
    """Mean square of every track over the windows, in one pass through the container."""
    from content_pipeline.media.decode import audio_only, frames_between, to_mono

    energy = np.zeros(len(info.audio))
    samples = np.zeros(len(info.audio))
    with audio_only(source, *range(len(info.audio))) as (container, streams):
        places = {stream.index: place for place, stream in enumerate(streams)}
        for start_s, end_s in windows:
            first_s, last_s = info.origin_s + start_s, info.origin_s + end_s
            for stream_index, frame in frames_between(container, streams, first_s, last_s):
                place = places[stream_index]
                mono = to_mono(frame)
                energy[place] += float(np.dot(mono, mono))
                samples[place] += len(mono)
    return [float(value) for value in energy / np.maximum(samples, 1)]
