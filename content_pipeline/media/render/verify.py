"""The last word on a montage: it opens, holds what was planned, plays from every cut, and decodes without an error."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from content_pipeline.errors import CorruptMedia, printable
from content_pipeline.media.ffmpeg import Watch, complaint
from content_pipeline.media.render.join import JoinedMontage
from content_pipeline.media.source import open_source

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream


_DECODED_PACKETS = 4
"""Packets of sound decoded at every cut."""


def verify_montage(montage: JoinedMontage, planned_s: float | None = None) -> None:
    """Raise `CorruptMedia` unless the file holds up. `planned_s` is the length the clips should add up to."""
    name = printable(montage.path)
    with open_source(montage.path) as source, source.container() as container:
        video = _check_streams(container, montage, name)
        frame_s = _check_pictures(container, video, montage, name)
        if planned_s is not None:
            _check_length(montage.duration_s, planned_s, frame_s * max(1, len(montage.cuts)), name, "the plan")
        _check_cuts(container, video, montage, frame_s, name)
        if montage.has_sound:
            _check_sound(container, montage, frame_s, name)


def verify_decodes(montage: JoinedMontage, watch: Watch, cores: int = 1) -> None:
    """Raise `CorruptMedia` unless every picture and every sound decodes without a word.

    Packets that were copied carry the recording's damage with them, and nothing but decoding tells of a flipped bit.
    """
    said = complaint(f"file:{montage.path.absolute()}", watch, cores)
    if said is not None:
        raise CorruptMedia(f"a montage of copied pictures and sound does not decode cleanly ({said})")


def _check_streams(container: InputContainer, montage: JoinedMontage, name: str) -> VideoStream:
    videos, sounds = container.streams.video, container.streams.audio
    if len(videos) != 1 or videos[0].codec_context.name != "h264":
        raise CorruptMedia(f"{name} should hold one H.264 picture track")
    if len(sounds) != int(montage.has_sound) or any(stream.codec_context.name != "aac" for stream in sounds):
        raise CorruptMedia(f"{name} should hold {'one AAC' if montage.has_sound else 'no'} sound track")
    return videos[0]


def _check_pictures(container: InputContainer, video: VideoStream, montage: JoinedMontage, name: str) -> float:
    """Lengths agree, and every cut starts with a keyframe. How long a frame usually stands."""
    assert video.time_base is not None
    shown = [
        (float(packet.pts * video.time_base), packet.is_keyframe)
        for packet in container.demux(video)
        if packet.size and packet.pts is not None
    ]
    if not shown:
        raise CorruptMedia(f"{name} holds no picture")
    frame_s = max(montage.duration_s / len(shown), 1e-3)
    # The track's length, not the last packet's: in decoding order the last one is rarely the last one shown.
    _check_length(float((video.duration or 0) * video.time_base), montage.duration_s, frame_s, name, "its clips")
    if max(start_s for start_s, _ in shown) >= montage.duration_s:
        raise CorruptMedia(f"{name} shows pictures after its end")
    keys = [start_s for start_s, is_key in shown if is_key]
    for cut in montage.cuts:
        if not any(abs(key_s - cut.start_s) < frame_s / 2 for key_s in keys):
            raise CorruptMedia(f"{name} cannot be started at its cut at {cut.start_s:.2f} s")
    return frame_s


def _check_length(got_s: float, wanted_s: float, tolerance_s: float, name: str, of_what: str) -> None:
    if abs(got_s - wanted_s) > tolerance_s + 1e-3:
        raise CorruptMedia(f"{name} lasts {got_s:.3f} s, but {of_what} {wanted_s:.3f} s")


def _check_cuts(
    container: InputContainer, video: VideoStream, montage: JoinedMontage, frame_s: float, name: str
) -> None:
    """Decode the first picture of every clip."""
    import av

    assert video.time_base is not None
    for cut in montage.cuts:
        try:
            container.seek(round((cut.start_s + frame_s / 2) / video.time_base), stream=video)
            frame = next(container.decode(video), None)
        except av.error.FFmpegError as error:
            raise CorruptMedia(f"{name} cannot be decoded at {cut.start_s:.2f} s: {error}") from error
        if frame is None:
            raise CorruptMedia(f"{name} shows nothing at {cut.start_s:.2f} s")


def _check_sound(container: InputContainer, montage: JoinedMontage, frame_s: float, name: str) -> None:
    """The sound lasts as long as the pictures, and decodes where one clip's follows another's."""
    import av

    stream = container.streams.audio[0]
    cuts_s = deque(cut.start_s for cut in montage.cuts)
    end_s, left = 0.0, 0
    container.seek(0)
    try:
        for packet in container.demux(stream):
            if packet.size == 0 or packet.pts is None:
                continue
            end_s = float((packet.pts + (packet.duration or 0)) * packet.time_base)
            if cuts_s and end_s >= cuts_s[0]:
                cuts_s.popleft()
                left = _DECODED_PACKETS
            if left:
                packet.decode()
                left -= 1
    except av.error.FFmpegError as error:
        raise CorruptMedia(f"{name} has sound that cannot be decoded: {error}") from error
    _check_length(end_s, montage.duration_s, max(frame_s, 0.05), name, "its pictures")
