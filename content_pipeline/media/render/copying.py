"""Copying a span's packets into a clip, with re-encoded edges where the plan asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from content_pipeline.errors import CorruptMedia, FileInUse, printable
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render import h264
from content_pipeline.media.render.clip_file import ClipWriter, Picture
from content_pipeline.media.render.cutting import CutPlan
from content_pipeline.media.render.edges import EdgeEncoder, new_decoder
from content_pipeline.media.render.survey import Survey, packets_from, picture_stream
from content_pipeline.media.source import Source
from content_pipeline.settings import RenderSettings

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream


class Cutter:
    """One open pass over the surveyed packets: what is copied is copied, what is an edge is encoded."""

    def __init__(
        self,
        container: InputContainer,
        stream: VideoStream,
        survey: Survey,
        plan: CutPlan,
        settings: RenderSettings,
    ) -> None:
        self._stream, self._survey, self._plan, self._settings = stream, survey, plan, settings
        self.stream = stream
        self._packets = _surveyed(container, stream, survey)
        self.sets = _source_sets(stream, self._packets[0])
        self._head = self._edge(plan.start, plan.copy_start) if plan.has_head else None
        self._tail = self._edge(plan.copy_end, plan.end) if plan.has_tail else None

    @property
    def all_sets(self) -> h264.ParameterSets:
        """The recording's parameter sets and the edges'."""
        edge = self._head if self._head is not None else self._tail
        return self.sets if edge is None else self.sets.merged(edge.sets)

    def pictures(self) -> Iterator[Picture]:
        """All pictures of the clip in decoding order, `pts` counted from its start."""
        for picture in self._absolute():
            yield Picture(picture.data, picture.pts - self._plan.start, picture.key)

    def _edge(self, start: int, end: int) -> EdgeEncoder:
        return EdgeEncoder(self._stream, self.sets, self._settings, start, end)

    def _absolute(self) -> Iterator[Picture]:
        plan = self._plan
        if self._head is not None:
            yield from self._encoded(self._head, 0, plan.copy_from if plan.copy_to else len(self._packets))
        yield from self._copied(self._packets[plan.copy_from : plan.copy_to])
        if self._tail is not None:
            yield from self._encoded(self._tail, self._last_key(plan.copy_to), len(self._packets))

    def _copied(self, packets: Sequence[Packet[VideoStream]]) -> Iterator[Picture]:
        """A picture of which nothing is left is passed over: the one before it stands a little longer."""
        for packet in packets:
            units = h264.units_of(memoryview(packet), self.sets.length_size)
            assert packet.pts is not None
            if h264.has_picture(units):
                yield Picture(h264.prefixed(units), packet.pts, packet.is_keyframe)

    def _encoded(self, edge: EdgeEncoder, first: int, last: int) -> Iterator[Picture]:
        """Decode packets `[first, last)` for an edge; damaged ones are passed over, as a player would."""
        import av

        decoder = new_decoder(self._stream)
        for packet in [*self._packets[first:last], None]:
            try:
                frames = decoder.decode(packet)
            except av.error.FFmpegError:
                continue
            yield from edge.feed(frames)
        yield from edge.finish()

    def _last_key(self, before: int) -> int:
        return max(index for index in range(before) if self._survey.stamps[index].key)


def _surveyed(container: InputContainer, stream: VideoStream, survey: Survey) -> list[Packet[VideoStream]]:
    """The surveyed packets, read again. Held together: a clip is seconds long."""
    wanted = [stamp.pts for stamp in survey.stamps]
    found: list[Packet[VideoStream]] = []
    for packet in packets_from(container, stream, survey.seek_s):
        if packet.pts is None or (not found and packet.pts != wanted[0]):
            continue
        found.append(packet)
        if len(found) == len(wanted):
            break
    if [packet.pts for packet in found] != wanted:
        raise FileInUse("the packets changed between two readings")
    return found


def _source_sets(stream: VideoStream, first: Packet[VideoStream]) -> h264.ParameterSets:
    """The recording's parameter sets: from its header, or from its first keyframe where there is no header."""
    extradata = stream.codec_context.extradata or b""
    sets = h264.parameter_sets(extradata)
    if not sets.sps or not sets.pps:
        sets = h264.parameter_sets(bytes(first))
    if not sets.sps or not sets.pps:
        raise CorruptMedia("the recording has no H.264 parameter sets")
    return sets


@contextmanager
def open_cutter(
    source: Source, info: MediaInfo, survey: Survey, plan: CutPlan, settings: RenderSettings
) -> Iterator[Cutter]:
    with source.container() as container:
        try:
            yield Cutter(container, picture_stream(container, info), survey, plan, settings)
        except h264.Malformed as error:
            raise CorruptMedia(f"{printable(source.path)}: {error}") from error


def write_pictures(cutter: Cutter, writer: ClipWriter) -> int:
    """Write all pictures; how many."""
    count = 0
    for picture in cutter.pictures():
        writer.write_picture(picture)
        count += 1
    return count
