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

from content_pipeline.errors import LimitExceeded, printable
from content_pipeline.media.audio.timeline import Timeline
from content_pipeline.media.curves.model import SAMPLE_RATE_HZ
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.source import Source

if TYPE_CHECKING:
    from av import AudioFrame
    from numpy.typing import NDArray

    from content_pipeline.media.audio.decode import MonoQueue

    Samples = NDArray[np.float32]

BLOCK_SAMPLES = 1 << 16


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
        """Whether blocks of a part of the track are, as far as can be seen, those of decoding it from the start."""
        return not self._bad_packets and (self._timeline is None or self._timeline.is_certain)

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

    def _check_length(self, end_s: float) -> None:
        """A recording may hold more than it declares."""
        if end_s > self._source.limits.max_duration_s:
            limit = f"limits.max_duration_s is {self._source.limits.max_duration_s:.0f}"
            raise LimitExceeded(f"{printable(self._source.path)} holds more than {end_s:.0f} s of sound; {limit}")

    def _native_blocks(self) -> Iterator[tuple[int, Samples]]:
        """Mono blocks with their rate, the track's own, and no hole between them."""
        from content_pipeline.media.audio.decode import FrameReader, MonoQueue

        reader = FrameReader(self._source, self._info, self._track)
        grid = reader.grid() if self._start_s > 0 else None
        queue: MonoQueue | None = None
        for frame in reader.frames(self._start_s):
            if queue is None or self._timeline is None:
                is_whole = self._start_s <= 0 and self._end_s is None
                lag = 0 if is_whole else reader.lag_at(self._start_s, frame)
                self._timeline = Timeline(self._info, frame.sample_rate, self._start_s, self._end_s, grid, lag)
                queue = MonoQueue(frame)
            is_after_damage = reader.bad_packets > self._bad_packets
            if is_after_damage or not queue.put_next(frame, self._timeline):
                self._bad_packets = reader.bad_packets
                yield from _placed(frame, queue, self._timeline, is_after_damage)
                self._check_length(self._timeline.end_s)
            if queue.samples >= BLOCK_SAMPLES:
                self._check_length(self._timeline.end_s)
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
