"""Encoding a span's pictures to the contract, by an ffmpeg child: any recording comes out alike.

Constant frame rate, square pixels, upright, even size, 8-bit 4:2:0; with a frame size given, fitted into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from content_pipeline.errors import CorruptMedia, printable
from content_pipeline.media.ffmpeg import Watch, run_ffmpeg
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render import h264
from content_pipeline.media.render.clip_file import ClipWriter, Picture, open_clip
from content_pipeline.media.render.survey import MAX_DAMAGED_SHARE, Survey
from content_pipeline.media.source import OPEN_OPTIONS, Source
from content_pipeline.media.spans import Span
from content_pipeline.settings import LimitSettings, RenderSettings

LEAD_S = 1.0
"""Pictures read before the start: of a variable rate, the one that still stands there is needed."""
KEYFRAME_EVERY_S = 2.0


@dataclass(frozen=True)
class FrameSize:
    """A size that pictures are fitted into, with bars where the shape differs."""

    width: int
    height: int


def frame_rate(settings: RenderSettings) -> Fraction:
    return Fraction(settings.fps).limit_denominator(1001)


@dataclass(frozen=True)
class EncodeOrder:
    """What to encode, and within which limits."""

    source: Source
    info: MediaInfo
    surveyed: Survey
    span: Span
    settings: RenderSettings
    limits: LimitSettings
    size: FrameSize | None = None

    @property
    def count(self) -> int:
        """How many pictures the span lasts."""
        return max(1, round(self.span.duration_s * frame_rate(self.settings)))

    @property
    def lead_s(self) -> float:
        """How long before the span reading starts; all that there is where it would start at the beginning."""
        lead_s = LEAD_S
        if "mpegts" in self.info.container:  # its seek ends anywhere: go well before the keyframe that is needed
            lead_s += max(0.0, self.span.start_s - self.surveyed.time_s(self.surveyed.stamps[0].pts))
        return lead_s if lead_s < self.span.start_s else self.span.start_s


@contextmanager
def encoded_pictures(
    order: EncodeOrder, beside: Path, progress: Callable[[float], None] | None
) -> Iterator[EncodedFile]:
    """Encode into a file beside the clip, which is gone again when the block ends."""
    path = beside.with_name(beside.name + ".pictures")
    try:
        yield EncodedFile(path, _encode(order, path, progress))
    finally:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class EncodedFile:
    path: Path
    damaged: int

    def write_to(self, writer: ClipWriter, add_sound: Callable[[], object]) -> None:
        """Move the pictures into the clip; the first one becomes the clip's start."""
        first_pts: int | None = None
        with open_clip(self.path) as container:
            stream = container.streams.video[0]
            assert stream.time_base is not None
            sets = h264.parameter_sets(stream.codec_context.extradata or b"")
            writer.add_video(stream, sets, stream.time_base)
            add_sound()
            for packet in container.demux(stream):
                if packet.size == 0 or packet.pts is None:
                    continue
                first_pts = packet.pts if first_pts is None else first_pts
                units = h264.units_of(memoryview(packet), sets.length_size)
                writer.write_picture(Picture(h264.prefixed(units), packet.pts - first_pts, packet.is_keyframe))


def _encode(order: EncodeOrder, path: Path, progress: Callable[[float], None] | None) -> int:
    """Run the child and hold what it made against the plan; how many pictures were damaged."""
    settings, span = order.settings, order.span
    outcome = run_ffmpeg(
        [*_input(order), *_output(order), f"file:{path.absolute()}"],
        Watch(settings.time_limit_s, settings.stall_limit_s, order.limits.max_memory_bytes),
        descriptors=(order.source.descriptor,),
        expected_s=span.duration_s,
        progress=progress,
    )
    where = f"{printable(order.source.path)}: between {span.start_s:.2f} and {span.end_s:.2f} s"
    if outcome.frames < order.count - 1:
        raise CorruptMedia(f"{where} only {outcome.frames} of {order.count} pictures could be made")
    if outcome.decode_errors > MAX_DAMAGED_SHARE * order.count:
        raise CorruptMedia(f"{where} {outcome.decode_errors} pictures cannot be decoded")
    return outcome.decode_errors + outcome.concealed


def _input(order: EncodeOrder) -> list[str]:
    assert order.info.video is not None
    options = {**OPEN_OPTIONS, "protocol_whitelist": "file,pipe", "max_streams": str(order.limits.max_streams)}
    arguments = [part for name, value in options.items() for part in (f"-{name}", value)]
    # Decoding is a tenth of the work: more threads would only add to it.
    arguments += ["-max_pixels", str(order.limits.max_pixels), "-threads", "1"]
    from_s = order.span.start_s - order.lead_s
    if from_s > 0:
        # On the container's own clock, so that no guess of the child about its start matters.
        arguments += ["-seek_timestamp", "1", "-ss", f"{order.info.origin_s + from_s:.6f}"]
    arguments += ["-t", f"{order.lead_s + order.span.duration_s + LEAD_S:.6f}", "-i", order.source.url]
    return [*arguments, "-map", f"0:{order.info.video.index}", "-an", "-sn", "-dn", "-map_metadata", "-1"]


def _output(order: EncodeOrder) -> list[str]:
    settings, rate = order.settings, frame_rate(order.settings)
    filters = [
        f"setpts=PTS-{order.lead_s:.6f}/TB",
        f"fps={rate.numerator}/{rate.denominator}:start_time=0:round=near",
        *_shape(order.size),
        f"format={settings.pixel_format}",
    ]
    return [
        *("-vf", ",".join(filters), "-frames:v", str(order.count), "-fps_mode", "passthrough"),
        *("-c:v", settings.codec, "-profile:v", settings.profile, "-preset", settings.preset),
        *("-crf", str(settings.crf), "-g", str(max(1, round(KEYFRAME_EVERY_S * rate)))),
        # Half as many again, as x264 takes by itself, cost a twentieth more and are not faster.
        *("-threads", str(_cores()), "-f", "nut"),
    ]


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shape(size: FrameSize | None) -> list[str]:
    if size is None:
        return ["scale=trunc(iw*sar/2)*2:trunc(ih/2)*2", "setsar=1"]
    inside = f"{size.width}:{size.height}"
    return [
        "scale=iw*sar:ih",
        f"scale={inside}:force_original_aspect_ratio=decrease:force_divisible_by=2",
        f"pad={inside}:(ow-iw)/2:(oh-ih)/2",
        "setsar=1",
    ]
