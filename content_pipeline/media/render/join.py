"""Joining clips to a montage: pictures packet by packet, sound against the pictures' clock.

The montage's clock is the sum of the clips' exact lengths. Sound is placed on it clip by clip, so an error
at one cut (half a packet at most, for copied sound) is never carried to the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING

from content_pipeline.errors import CorruptMedia, from_own_folder, printable
from content_pipeline.media.damage import Damaged
from content_pipeline.media.render import h264
from content_pipeline.media.render.clip import Clip
from content_pipeline.media.render.clip_file import open_clip, pictures
from content_pipeline.media.render.montage_sound import sound_for
from content_pipeline.media.render.survey import REORDER_PACKETS
from content_pipeline.media.render.ticks import rescaled
from content_pipeline.media.spans import Span
from content_pipeline.settings import RenderSettings

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream


@dataclass(frozen=True)
class Cut:
    """`source` is a span of the recording; `start_s` and `end_s` are where the montage shows it."""

    source: Span
    start_s: float
    end_s: float


@dataclass(frozen=True)
class JoinedMontage:
    path: Path
    duration_s: float
    cuts: tuple[Cut, ...]
    has_sound: bool


def join(clips: Sequence[Clip], settings: RenderSettings, target: Path) -> JoinedMontage:
    """Write the clips one after the other into an mp4 that starts playing before it is loaded."""
    import av

    if not clips:
        raise ValueError("a montage needs at least one clip")
    try:
        with av.open(f"file:{target.absolute()}", "w", format="mp4", options={"movflags": "+faststart"}) as container:
            montage = _write(clips, settings, container, target)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, av.error.FFmpegError) and isinstance(error, OSError):
            raise from_own_folder(error, target) from error
        if isinstance(error, (av.error.FFmpegError, Damaged)):  # clips hold what was copied, damage included
            raise CorruptMedia(f"{printable(target)}: the clips cannot be joined: {error}") from error
        raise
    return montage


def _write(clips: Sequence[Clip], settings: RenderSettings, container: OutputContainer, target: Path) -> JoinedMontage:
    starts = _starts(clips)
    time_base = _common_time_base(clips)
    sound = sound_for(clips, starts, settings)
    stream = _add_video(clips, container, time_base)
    if sound is not None:
        sound.add_to(container)
    delay = max(clip.delay * clip.time_base for clip in clips)
    for clip, start in zip(clips, starts, strict=False):
        for packet in _packets(clip, start, delay, time_base):
            packet.stream = stream
            container.mux(packet)
            if sound is not None and packet.dts is not None:
                sound.write_until(packet.dts * float(time_base))
    if sound is not None:
        sound.finish()
    cuts = tuple(
        Cut(clip.span, float(start), float(end)) for clip, start, end in zip(clips, starts, starts[1:], strict=False)
    )
    return JoinedMontage(target, float(starts[-1]), cuts, sound is not None)


def _starts(clips: Sequence[Clip]) -> list[Fraction]:
    """Where each clip starts, and where the last one ends."""
    starts = [Fraction(0)]
    for clip in clips:
        starts.append(starts[-1] + clip.ticks * clip.time_base)
    return starts


def _common_time_base(clips: Sequence[Clip]) -> Fraction:
    """One clock that all clips fit on; 90 kHz where theirs differ."""
    bases = {clip.time_base for clip in clips}
    return bases.pop() if len(bases) == 1 else Fraction(1, 90_000)


def _add_video(clips: Sequence[Clip], container: OutputContainer, time_base: Fraction) -> VideoStream:
    if len({(clip.picture_format.width, clip.picture_format.height) for clip in clips}) > 1:
        raise ValueError("clips of different sizes: encode them to one size first")
    headers = dict.fromkeys(bytes.fromhex(clip.picture_format.header) for clip in clips)
    sets = reduce(h264.ParameterSets.merged, map(h264.from_box, headers))
    with open_clip(clips[0].path) as opened:
        # Opaque: the stream is only copied, so the reader's codec describes it and no encoder is opened.
        stream = container.add_stream_from_template(opened.streams.video[0], opaque=True)
    stream.codec_context.extradata = sets.as_box()
    stream.time_base = time_base
    return stream


def _packets(clip: Clip, start: Fraction, delay: Fraction, time_base: Fraction) -> Iterator[Packet[VideoStream]]:
    """A clip's pictures with the montage's stamps: decoded in the order of showing, less the delay."""
    scale, offset, ahead = clip.time_base / time_base, round(start / time_base), round(delay / time_base)
    end = round((start + clip.ticks * clip.time_base) / time_base)
    count = 0
    with open_clip(clip.path) as container:
        for packet, turn, following in _in_turn(pictures(container, clip.time_base)):
            assert packet.pts is not None
            decoded = offset + rescaled(turn, scale)
            packet.time_base = time_base
            packet.pts = offset + rescaled(packet.pts, scale)
            packet.dts = decoded - ahead
            packet.duration = (end if following is None else offset + rescaled(following, scale)) - decoded
            count += 1
            yield packet
    if count != clip.pictures:
        raise CorruptMedia(f"{printable(clip.path)} holds {count} of {clip.pictures} pictures")


def _in_turn(packets: Iterable[Packet[VideoStream]]) -> Iterator[tuple[Packet[VideoStream], int, int | None]]:
    """Each packet with the display time of its turn and of the next: the n-th packet gets the n-th time."""
    waiting: deque[Packet[VideoStream]] = deque()
    times: list[int] = []
    for packet in packets:
        assert packet.pts is not None
        waiting.append(packet)
        heappush(times, packet.pts)
        if len(waiting) > REORDER_PACKETS:
            yield waiting.popleft(), heappop(times), times[0]
    while waiting:
        yield waiting.popleft(), heappop(times), times[0] if times else None
