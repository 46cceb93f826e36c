"""Joining clips to a montage: pictures packet by packet, sound against the pictures' clock.

The montage's clock is the sum of the clips' exact lengths. Sound is placed on it clip by clip, so an error
at one cut (half a packet at most, for copied sound) is never carried to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from content_pipeline.errors import CorruptMedia, from_os_error, printable
from content_pipeline.media.render import h264
from content_pipeline.media.render.clip import Clip
from content_pipeline.media.render.clip_file import open_clip, pictures
from content_pipeline.media.render.montage_sound import sound_for
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
class Montage:
    path: Path
    duration_s: float
    cuts: tuple[Cut, ...]
    has_sound: bool

    def as_json(self) -> dict[str, Any]:
        """All but the path."""
        cuts = [[cut.source.start_s, cut.source.end_s, cut.start_s, cut.end_s] for cut in self.cuts]
        return {"duration_s": self.duration_s, "has_sound": self.has_sound, "cuts": cuts}

    @classmethod
    def from_json(cls, value: dict[str, Any], path: Path) -> Montage:
        cuts = tuple(Cut(Span(start, end), at, until) for start, end, at, until in value["cuts"])
        return cls(path, value["duration_s"], cuts, value["has_sound"])


def join(clips: Sequence[Clip], settings: RenderSettings, target: Path) -> Montage:
    """Write the clips one after the other into an mp4 that starts playing before it is loaded."""
    import av

    if not clips:
        raise ValueError("a montage needs at least one clip")
    try:
        with av.open(f"file:{target.absolute()}", "w", format="mp4", options={"movflags": "+faststart"}) as container:
            montage = _write(clips, settings, container, target)
    except BaseException as error:
        target.unlink(missing_ok=True)
        if isinstance(error, av.error.FFmpegError) and isinstance(error, OSError) and error.errno is not None:
            raise from_os_error(error, target) from error
        raise
    return montage


def _write(clips: Sequence[Clip], settings: RenderSettings, container: OutputContainer, target: Path) -> Montage:
    starts = _starts(clips)
    time_base = _common_time_base(clips)
    sound = sound_for(clips, starts, settings)
    stream = _add_video(clips, container, time_base)
    if sound is not None:
        sound.add_to(container)
    placed = [_Placed.of(clip, start) for clip, start in zip(clips, starts, strict=False)]
    delay = max(one.delay for one in placed)
    for one in placed:
        for packet in one.packets(delay, time_base):
            packet.stream = stream
            container.mux(packet)
            if sound is not None and packet.dts is not None:
                sound.write_until(packet.dts * time_base)
    if sound is not None:
        sound.finish()
    cuts = tuple(
        Cut(clip.span, float(start), float(end)) for clip, start, end in zip(clips, starts, starts[1:], strict=False)
    )
    return Montage(target, float(starts[-1]), cuts, sound is not None)


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
    sets: h264.ParameterSets | None = None
    size: tuple[int, int] | None = None
    stream: VideoStream | None = None
    for clip in clips:
        with open_clip(clip.path) as opened:
            template = opened.streams.video[0]
            own = h264.parameter_sets(template.codec_context.extradata or b"")
            if size not in (None, (template.width, template.height)):
                raise ValueError("clips of different sizes: encode them to one size first")
            size = (template.width, template.height)
            sets = own if sets is None else sets.merged(own)
            if stream is None:
                stream = container.add_stream_from_template(template, opaque=True)
    assert stream is not None and sets is not None
    stream.codec_context.extradata = sets.as_box()
    stream.time_base = time_base
    return stream


@dataclass(frozen=True)
class _Placed:
    """A clip at its place in the montage; `shown` are its pictures' display times, in decoding order."""

    clip: Clip
    start: Fraction
    shown: tuple[Fraction, ...]

    @classmethod
    def of(cls, clip: Clip, start: Fraction) -> _Placed:
        with open_clip(clip.path) as container:
            shown = tuple(packet.pts * packet.time_base for packet in pictures(container) if packet.pts is not None)
        if len(shown) != clip.pictures:
            raise CorruptMedia(f"{printable(clip.path)} holds {len(shown)} of {clip.pictures} pictures")
        return cls(clip, start, shown)

    @property
    def delay(self) -> Fraction:
        """How long decoding must run ahead of showing, measured: a constant fails where the rate varies."""
        return max(turn - shown for turn, shown in zip(sorted(self.shown), self.shown, strict=True))

    def packets(self, delay: Fraction, time_base: Fraction) -> Iterator[Packet[VideoStream]]:
        """The pictures with the montage's stamps: decoded in the order of showing, less the delay."""
        turns = [round((self.start + turn) / time_base) for turn in sorted(self.shown)]
        turns.append(round((self.start + self.clip.ticks * self.clip.time_base) / time_base))
        with open_clip(self.clip.path) as container:
            for index, packet in enumerate(pictures(container)):
                packet.time_base = time_base
                packet.pts = round((self.start + self.shown[index]) / time_base)
                packet.dts = turns[index] - round(delay / time_base)
                packet.duration = turns[index + 1] - turns[index]
                yield packet
