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
    delay = max(_delay(clip) for clip in clips)
    for clip, start in zip(clips, starts, strict=False):
        for packet in _timed(clip, start, delay, time_base):
            packet.stream = stream
            container.mux(packet)
            if sound is not None:
                assert packet.dts is not None
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


def _shown(clip: Clip) -> list[int]:
    """The display times of a clip's pictures, in decoding order."""
    with open_clip(clip.path) as container:
        shown = [packet.pts for packet in pictures(container) if packet.pts is not None]
    if len(shown) != clip.pictures:
        raise CorruptMedia(f"{printable(clip.path)} holds {len(shown)} of {clip.pictures} pictures")
    return shown


def _delay(clip: Clip) -> Fraction:
    """How long decoding must run ahead of showing, measured: a constant fails where the rate varies."""
    shown = _shown(clip)
    ahead = max(turn - pts for turn, pts in zip(sorted(shown), shown, strict=True))
    return ahead * _stored_time_base(clip)


def _stored_time_base(clip: Clip) -> Fraction:
    with open_clip(clip.path) as container:
        time_base = container.streams.video[0].time_base
    assert time_base is not None
    return time_base


def _timed(clip: Clip, start: Fraction, delay: Fraction, time_base: Fraction) -> Iterator[Packet[VideoStream]]:
    """A clip's pictures with the montage's stamps: decoded in the order of showing, less the delay."""
    turns = sorted(_shown(clip))
    end = clip.ticks * clip.time_base
    with open_clip(clip.path) as container:
        for index, packet in enumerate(pictures(container)):
            stored = packet.time_base
            assert packet.pts is not None
            shown, turn = packet.pts * stored, turns[index] * stored
            following = turns[index + 1] * stored if index + 1 < len(turns) else end
            packet.time_base = time_base
            packet.pts = round((start + shown) / time_base)
            packet.dts = round((start + turn - delay) / time_base)
            packet.duration = round((start + following) / time_base) - round((start + turn) / time_base)
            yield packet
