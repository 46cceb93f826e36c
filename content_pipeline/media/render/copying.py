"""Copying a span's packets into a clip, with re-encoded edges where the plan asks for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from content_pipeline.errors import CorruptMedia, FileInUse
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.render import h264
from content_pipeline.media.render.clip_file import ClipWriter, Picture
from content_pipeline.media.render.cutting import CutPlan
from content_pipeline.media.render.edges import EdgeEncoder, new_decoder
from content_pipeline.media.render.survey import Survey, packets_from, picture_stream
from content_pipeline.settings import RenderSettings

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream


class Cutter:
    """One pass over the surveyed packets: what is copied is copied, what is an edge is encoded.

    At most one group of pictures is held: the tail is decoded from the last keyframe, which is copied too.
    """

    def __init__(
        self,
        container: InputContainer,
        info: MediaInfo,
        survey: Survey,
        plan: CutPlan,
        settings: RenderSettings,
    ) -> None:
        stream = self.stream = picture_stream(container, info)
        self._plan = plan
        packets = _surveyed(container, stream, survey)
        first = next(packets)
        self._packets = chain([first], packets)
        self._own_sets = _parameter_sets(stream, first)
        self._head = self._tail = None
        if plan.has_head:
            self._head = EdgeEncoder(stream, self._own_sets, settings, plan.start, plan.copy_start)
        if plan.has_tail:
            self._tail = EdgeEncoder(stream, self._own_sets, settings, plan.copy_end, plan.end)

    @property
    def sets(self) -> h264.ParameterSets:
        """The recording's parameter sets and the edges'."""
        edge = self._head if self._head is not None else self._tail
        return self._own_sets if edge is None else self._own_sets.merged(edge.sets)

    def write_to(self, writer: ClipWriter) -> None:
        """Write all pictures in decoding order."""
        for picture in self._pictures():
            writer.write_picture(Picture(picture.data, picture.pts - self._plan.start, picture.key))

    def _pictures(self) -> Iterator[Picture]:
        plan = self._plan
        head_packets = islice(self._packets, plan.copy_from if plan.copy_to else None)
        if self._head is not None:
            yield from self._encoded(self._head, head_packets)
        deque(head_packets, maxlen=0)  # without a head, what lies before the first copied packet is passed over
        group: list[Packet[VideoStream]] = []
        for packet in islice(self._packets, plan.copy_to - plan.copy_from):
            if packet.is_keyframe or self._tail is None:
                group.clear()
            group.append(packet)
            yield from self._copied(packet)
        if self._tail is not None:
            yield from self._encoded(self._tail, chain(group, self._packets))

    def _copied(self, packet: Packet[VideoStream]) -> Iterator[Picture]:
        """A picture of which nothing is left is passed over: the one before it stands a little longer."""
        units = h264.units_of(memoryview(packet), self._own_sets.length_size)
        if h264.has_picture(units):
            assert packet.pts is not None
            yield Picture(h264.prefixed(units), packet.pts, packet.is_keyframe)

    def _encoded(self, edge: EdgeEncoder, packets: Iterable[Packet[VideoStream]]) -> Iterator[Picture]:
        """Decode packets for an edge; damaged ones are passed over, as a player would."""
        import av

        decoder = new_decoder(self.stream)
        for packet in chain(packets, [None]):
            try:
                frames = decoder.decode(packet)
            except av.error.FFmpegError:
                continue
            yield from edge.feed(frames)
        yield from edge.finish()


def _surveyed(container: InputContainer, stream: VideoStream, survey: Survey) -> Iterator[Packet[VideoStream]]:
    """The surveyed packets, read again; that they are the same is checked one by one."""
    count = 0
    for packet in packets_from(container, stream, survey.seek_s):
        if packet.pts is None or (count == 0 and packet.pts != survey.stamps[0].pts):
            continue
        if packet.pts != survey.stamps[count].pts:
            break
        yield packet
        count += 1
        if count == len(survey.stamps):
            return
    raise FileInUse("the recording's packets changed between two readings")


def _parameter_sets(stream: VideoStream, first: Packet[VideoStream]) -> h264.ParameterSets:
    """The recording's own: from its header, or from its first keyframe where there is no header."""
    for data in (stream.codec_context.extradata or b"", bytes(first)):
        sets = h264.parameter_sets(data)
        if sets.sps and sets.pps:
            return sets
    raise CorruptMedia("the recording has no H.264 parameter sets")
