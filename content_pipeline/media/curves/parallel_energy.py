"""One track measured whole, or split in time over forked processes with the same result.

A part starts a few seconds early, on a whole second so that the resampler is in step, and ends late; what the
run-up and run-out touch is cut off. Each process opens the recording for itself. Whatever is out of the ordinary
(damage, a part that comes up short, a process that dies) is left to the plain way, which is always right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from content_pipeline.media.audio.mono_blocks import AudioReport, MonoBlocks
from content_pipeline.media.curves.model import (
    CURVE_NAMES,
    FRAME_RATE_HZ,
    HOP_SAMPLES,
    SAMPLE_RATE_HZ,
    Curves,
)
from content_pipeline.media.curves.separation import CurveStream
from content_pipeline.media.curves.track_task import TrackTask
from content_pipeline.system.child_process import ChildProcess, Send

RUN_UP_S = 3.0  # more than the 40 frames that medians and windows reach, and than the resampler remembers
SHORTEST_PART_S = 60.0


class _Uncertain(Exception):
    """Damage, or stamps that do not say where a part of this track stands in the whole."""


Measured = tuple[Curves, AudioReport]


@dataclass(frozen=True)
class Part:
    """The frames `[first, last)` of a track; the last part is open."""

    first: int
    last: int | None

    @property
    def is_whole(self) -> bool:
        return self.first == 0 and self.last is None

    @property
    def start_s(self) -> int:
        return max(0, math.floor(self.first / FRAME_RATE_HZ - RUN_UP_S))

    @property
    def end_s(self) -> int | None:
        return None if self.last is None else math.ceil(self.last / FRAME_RATE_HZ + RUN_UP_S)


def measure_whole(task: TrackTask) -> Measured:
    return _measure(task, Part(0, None))


def measure_in_parts(task: TrackTask, processes: int) -> Measured | None:
    """The track by several processes, this one included; None when it has to be done in one piece."""
    parts = split(task.duration_s, processes)
    if len(parts) < 2:
        return None
    children = [ChildProcess.start(_measure_part(task, part)) for part in parts[1:]]

    def progress(fraction: float) -> None:
        if any(child.has_ended_silently() for child in children):
            raise _Uncertain  # the rest of the work would be thrown away
        task.progress(fraction)

    try:
        measured = [_measure(replace(task, progress=progress), parts[0])]
        for child in children:
            measured += child.receive_all()  # nothing, where it could not, or died
    except _Uncertain:
        return None
    finally:
        for child in children:
            child.stop()
    return _joined(parts, measured) if len(measured) == len(parts) else None


def split(duration_s: float, processes: int) -> list[Part]:
    count = max(1, min(processes, int(duration_s / SHORTEST_PART_S)))
    frames = int(duration_s * FRAME_RATE_HZ)
    edges = [frames * index // count for index in range(count)]
    return [Part(first, last) for first, last in zip(edges, [*edges[1:], None], strict=True)]


def _measure(task: TrackTask, part: Part) -> Measured:
    """The curves of a part, without its run-up and run-out."""
    blocks = MonoBlocks(task.source, task.info, task.track, part.start_s, part.end_s)
    start = part.start_s * SAMPLE_RATE_HZ
    skip = -start % HOP_SAMPLES  # frames of all parts stand on the same grid
    expected = (task.duration_s if part.end_s is None else part.end_s) * SAMPLE_RATE_HZ - start
    stream = CurveStream(task.hpss_margin[1], expected_samples=expected)
    seen = 0
    for block in blocks:
        seen += len(block)
        stream.push(block[skip:])
        skip = max(0, skip - len(block))
        task.progress(seen / expected if expected > 0 else 0.0)
        if not (part.is_whole or blocks.is_certain):
            raise _Uncertain
    run_up = part.first - -(-start // HOP_SAMPLES)
    kept = slice(run_up, None if part.last is None else run_up + part.last - part.first)
    return stream.finish().each(lambda curve: curve[kept]), blocks.report


def _joined(parts: list[Part], measured: list[Measured]) -> Measured | None:
    """All parts end to end, or None where they do not add up to a whole and healthy track."""
    for part, (curves, report) in zip(parts, measured, strict=True):
        is_short = part.last is not None and len(curves.rms) < part.last - part.first
        if is_short or not len(curves.rms) or report.bad_packets:
            return None
    curves = Curves(*(np.concatenate([getattr(part, name) for part, _ in measured]) for name in CURVE_NAMES))
    first, last = measured[0][1], measured[-1][1]
    return curves, replace(first, decoded_s=last.end_s - first.start_s)


def _measure_part(task: TrackTask, part: Part) -> Callable[[Send], None]:
    """What a child does: measures a part, and sends it back; nothing where it cannot."""

    def measure(send: Send) -> None:
        with suppress(_Uncertain):
            send(_measure(replace(task, progress=lambda fraction: None), part))

    return measure
