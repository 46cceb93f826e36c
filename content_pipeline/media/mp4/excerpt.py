"""A plain mp4 or mov opened a window at a time: libavformat sees a short file that holds one audio track.

At opening libavformat lays out every packet of every track; for 12 hours that is a quarter of a gigabyte and most of
a second. So it is given a small header made here, with the track's table cut to some four minutes, followed by the
recording's own bytes. An edit list puts the window where it stands in the recording, so that packets carry the very
stamps they have in the whole. Only AAC in the layout that nearly all recorders write is done this way.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from content_pipeline.media.audio.timeline import lag_after
from content_pipeline.media.mp4.boxes import MOST_BYTES, Box, Unusual, packed, whole_file
from content_pipeline.media.mp4.sample_table import SampleTable
from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.source import Source

WINDOW_SAMPLES = 10_000  # packets: some four minutes of AAC

_NORMAL_SPEED = 1 << 16
_HEAD_BYTES_KEPT = 1 << 16  # of anything copied as it is
_MOST_TICKS = 1 << 48
_MOST_SKIPPED_SAMPLES = 4


@dataclass(frozen=True)
class Edit:
    """What of the media is presented: from `media_ticks` on, for `length_ticks`, after `empty_ticks` of nothing."""

    empty_ticks: int = 0
    media_ticks: int = 0
    length_ticks: int | None = None

    def of_window(self, start_ticks: int, end_ticks: int) -> Edit:
        """The same edit for a part of the media; where nothing was trimmed, all of the part is presented."""
        if start_ticks == 0:
            return self
        skipped = max(0, start_ticks - self.media_ticks)
        length = end_ticks - start_ticks if self.length_ticks is None else self.length_ticks - skipped
        return Edit(self.empty_ticks + skipped, max(0, self.media_ticks - start_ticks), length)


@dataclass(frozen=True)
class AudioExcerpts:
    """One audio track of a plain recording."""

    file: Box
    movie: Box
    trak: Box
    table: SampleTable
    ticks_hz: int
    edit: Edit

    @classmethod
    def of(cls, source: Source, info: MediaInfo, track: int) -> AudioExcerpts | None:
        """None where the recording is not of the plain kind."""
        if not info.container.startswith("mov") or info.audio[track].codec != "aac":
            return None
        try:
            return cls._of(source, len(info.audio), track)
        except Unusual:
            return None

    @classmethod
    def _of(cls, source: Source, tracks: int, track: int) -> AudioExcerpts:
        file = whole_file(source)
        movie = file.child(b"moov")
        parts = movie.children()
        if movie.find(b"mvex") is not None or file.find(b"moof") is not None or _is_trimmed_elsewhere(parts):
            raise Unusual
        sounds = [box for box in parts if box.kind == b"trak" and _is_sound(box)]
        if len(sounds) != tracks:
            raise Unusual
        trak = sounds[track]
        ticks_hz = _timescale(trak.child(b"mdia").child(b"mdhd"))
        stbl = trak.child(b"mdia").child(b"minf").child(b"stbl")
        _check_description(stbl.child(b"stsd"))
        table = SampleTable.of(stbl)
        edit = _edit_of(trak, movie, ticks_hz)
        if table.ticks_at(table.samples) > _MOST_TICKS:
            raise Unusual
        if table.sample_at(edit.media_ticks) > _MOST_SKIPPED_SAMPLES:
            raise Unusual  # more than an encoder's delay
        excerpts = cls(file, movie, trak, table, ticks_hz, edit)
        excerpts._head(0, 1, edit)  # what can go wrong goes wrong here
        return excerpts

    def heads(self, start_s: float = 0.0, window_samples: int | None = None) -> Iterator[bytes]:
        """What to put before the recording's bytes, window by window, from the packet that sounds at `start_s` on."""
        window_samples = WINDOW_SAMPLES if window_samples is None else window_samples
        last_chunk = self.first_chunk(start_s)
        while last_chunk < self.table.chunks:
            first_chunk = last_chunk
            first_sample = self.table.chunk_table.first_sample_of(first_chunk)
            last_sample = first_sample + window_samples
            whole = last_sample >= self.table.samples
            last_chunk = (
                self.table.chunks if whole else max(self.table.chunk_table.chunk_of(last_sample), first_chunk + 1)
            )
            _, last_sample = self.table.samples_of(first_chunk, last_chunk)
            edit = self.edit.of_window(self.table.ticks_at(first_sample), self.table.ticks_at(last_sample))
            if edit.length_ticks is not None and edit.length_ticks <= 0:
                return
            yield self._head(first_chunk, last_chunk, edit)

    def first_chunk(self, start_s: float) -> int:
        """The chunk with the packet before the one that sounds at `start_s`, by the recording's stamps."""
        if start_s <= 0:
            return 0
        return self.table.chunk_table.chunk_of(max(0, self.table.sample_at(self._media_ticks(start_s)) - 1))

    def lag_at(self, start_s: float, rate_hz: int, frame_samples: int) -> int | None:
        """By how much the stamp of the first packet from `start_s` on is ahead of frames put end to end.

        They part by a little where recordings were joined; see `timeline`.
        """
        if rate_hz != self.ticks_hz:
            return None
        sample = self.table.sample_at(self._media_ticks(start_s) - 1) + 1
        return lag_after(self.table.durations_before(sample), frame_samples, rate_hz)

    def _media_ticks(self, at_s: float) -> int:
        return math.ceil(at_s * self.ticks_hz) - self.edit.empty_ticks + self.edit.media_ticks

    def _head(self, first_chunk: int, last_chunk: int, edit: Edit) -> bytes:
        """The header: made twice, because positions in it depend on its length."""
        unmoved = self._header(first_chunk, last_chunk, edit, 0)
        return self._header(first_chunk, last_chunk, edit, len(unmoved))

    def _header(self, first_chunk: int, last_chunk: int, edit: Edit, shift_bytes: int) -> bytes:
        media = self.trak.child(b"mdia")
        information = media.child(b"minf")
        table = self.table.cut(first_chunk, last_chunk, shift_bytes)
        others = [_copy(box) for box in information.children() if box.kind in (b"smhd", b"gmhd", b"dinf")]
        track = packed(
            b"trak",
            _copy(self.trak.child(b"tkhd")),
            self._edits(edit),
            packed(b"mdia", _copy(media.child(b"mdhd")), _copy(media.child(b"hdlr")), packed(b"minf", *others, table)),
        )
        brand = self.file.children()[0]
        size_bytes = self.file.end + 16
        return b"".join(
            [
                _copy(brand) if brand.kind == b"ftyp" else b"",
                packed(b"moov", _with_timescale(self.movie.child(b"mvhd"), self.ticks_hz), track),
                struct.pack(">I4sQ", 1, b"mdat", size_bytes),
            ]
        )

    def _edits(self, edit: Edit) -> bytes:
        if edit.length_ticks is None:
            return b""
        entries = [(edit.empty_ticks, -1)] if edit.empty_ticks else []
        entries.append((edit.length_ticks, edit.media_ticks))
        rows = [struct.pack(">QqI", ticks, media, _NORMAL_SPEED) for ticks, media in entries]
        return packed(b"edts", packed(b"elst", struct.pack(">II", 1 << 24, len(rows)), *rows))


def _copy(box: Box) -> bytes:
    if box.end - box.start > _HEAD_BYTES_KEPT:
        raise Unusual
    return packed(box.kind, box.read())


def _is_sound(trak: Box) -> bool:
    return trak.child(b"mdia").child(b"hdlr").read(8, 4) == b"soun"


def _is_trimmed_elsewhere(parts: list[Box]) -> bool:
    """Some writers put the encoder's delay into a tag instead of an edit list."""
    tags = [box for box in parts if box.kind in (b"udta", b"meta")]
    if sum(box.end - box.start for box in tags) > MOST_BYTES:
        raise Unusual
    return any(b"iTunSMPB" in box.read() for box in tags)


def _check_description(stsd: Box) -> None:
    """One kind of packet throughout, AAC, and nothing encrypted."""
    (count,) = struct.unpack(">I", stsd.read(4, 4))
    if count != 1 or stsd.read(12, 4) != b"mp4a" or stsd.end - stsd.start > _HEAD_BYTES_KEPT:
        raise Unusual


def _timescale(header: Box) -> int:
    """Ticks a second, of an mdhd or mvhd."""
    is_long = header.read(0, 1) == b"\x01"
    (ticks_hz,) = struct.unpack(">I", header.read(20 if is_long else 12, 4))
    if not 1 <= ticks_hz < 1 << 31:
        raise Unusual
    return int(ticks_hz)


def _with_timescale(header: Box, ticks_hz: int) -> bytes:
    """The movie's header with the track's clock: edits then stand on exact samples."""
    content = header.read()
    at = 20 if content[:1] == b"\x01" else 12
    if len(content) < at + 88:
        raise Unusual
    return packed(header.kind, content[:at], struct.pack(">I", ticks_hz), content[at + 4 :])


def _edit_of(trak: Box, movie: Box, ticks_hz: int) -> Edit:
    """The track's edit list, if it does no more than shift and trim."""
    edits = trak.find(b"edts")
    box = None if edits is None else edits.find(b"elst")
    if box is None:
        return Edit()
    (count,) = struct.unpack(">I", box.read(4, 4))
    layout = struct.Struct(">QqI" if box.read(0, 1) == b"\x01" else ">IiI")
    if not 1 <= count <= 2:
        raise Unusual
    *empty_edits, (length, media_ticks, speed) = layout.iter_unpack(box.read(8, count * layout.size))
    if speed != _NORMAL_SPEED or media_ticks < 0 or any(media != -1 for _, media, _ in empty_edits):
        raise Unusual
    movie_hz = _timescale(movie.child(b"mvhd"))
    empty = sum(_rescaled(ticks, ticks_hz, movie_hz) for ticks, _, _ in empty_edits)
    length = _rescaled(length, ticks_hz, movie_hz)
    if not length or max(empty, media_ticks, length) > _MOST_TICKS:
        raise Unusual  # of a length of no ticks, libavformat presents one packet
    return Edit(empty, media_ticks, length)


def _rescaled(ticks: int, to_hz: int, from_hz: int) -> int:
    """As libavformat rounds: to the nearest, halves up."""
    return (2 * ticks * to_hz + from_hz) // (2 * from_hz)
