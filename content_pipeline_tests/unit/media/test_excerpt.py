"""A recording read through a small header of our own: packet for packet what libavformat reads by itself."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from content_pipeline.media.audio.decode import FrameReader
from content_pipeline.media.audio.mono_blocks import mono_blocks
from content_pipeline.media.mp4 import excerpt
from content_pipeline.media.mp4 import header as opening
from content_pipeline.media.mp4.excerpt import AudioExcerpts
from content_pipeline.media.mp4.header import opening_head
from content_pipeline.media.probe import MediaInfo, describe
from content_pipeline.media.source import Source, open_source
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.footage import FOOTAGE
from content_pipeline_tests.helpers.sounds import Piece, Samples, bangs, opened, repeat, scene, write

Packet = tuple[Any, ...]


def packets(source: Source, track: int, head: bytes = b"") -> list[Packet]:
    with source.container(head) as container:
        stream = container.streams.audio[track]
        found = [packet for packet in container.demux(stream) if packet.size]
        return [(packet.pts, packet.duration, packet.is_discard, bytes(packet), stream.time_base) for packet in found]


def in_windows(source: Source, info: MediaInfo, track: int, window_samples: int) -> list[Packet]:
    excerpts = AudioExcerpts.of(source, info, track)
    assert excerpts is not None
    return [packet for head in excerpts.heads(0.0, window_samples) for packet in packets(source, 0, head)]


def sound_of(source: Source, info: MediaInfo, track: int = 0, start_s: float = 0.0) -> Samples:
    return np.concatenate([np.zeros(0, np.float32), *mono_blocks(source, info, track, start_s)])


def plain(*_: object) -> None:
    return None


def made(folder: Path, kind: str) -> Path:
    """A recording of ten seconds or so, of which the sound is in AAC."""
    folder.mkdir(exist_ok=True)
    sound = scene(10.0, 44_100, 6 if kind == "surround" else 2, bangs(10.0))
    if kind == "late":
        return samples.recording(folder, "late.mp4", sound_offset_s=1.7)
    if kind == "with a picture":
        return samples.recording(folder, "picture.mp4", silent_first_track=True)
    if kind == "joined":
        piece = write(folder / "piece.mp4", [Piece(sound)], rate_hz=44_100, codec="aac")
        return repeat(piece, folder / "joined.mp4", 3, overlap=351)
    if kind == "with a gap":
        pieces = [Piece(sound), Piece(sound, 12.5)]
        return write(folder / "gap.mov", pieces, rate_hz=44_100, codec="aac")
    options = {"movflags": "+faststart"} if kind == "header first" else {}
    return write(folder / "a.mp4", [Piece(sound)], rate_hz=44_100, codec="aac", **options)


def number_in(data: bytearray, kind: bytes, offset: int) -> int:
    """A number of the last box of a kind, the sound's where there is a picture, by its place in the content."""
    at = data.rindex(kind) + 4 + offset
    return int(struct.unpack(">I", data[at : at + 4])[0])


def put(data: bytearray, kind: bytes, offset: int, number: int) -> None:
    at = data.rindex(kind) + 4 + offset
    data[at : at + 4] = struct.pack(">I", number)


def box(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I4s", 8 + len(content), kind) + content


def add_to_header(path: Path, *boxes: bytes, sparse_bytes: int = 0) -> None:
    """More boxes in the header, which stands at the end of the file; what the last one holds may be a hole."""
    data = bytearray(path.read_bytes())
    more = b"".join(boxes)
    at = data.index(b"moov") - 4
    data[at : at + 4] = struct.pack(">I", len(data) - at + len(more) + sparse_bytes)
    path.write_bytes(data + more)
    os.truncate(path, len(data) + len(more) + sparse_bytes)


KINDS = ["plain", "header first", "surround", "late", "with a picture", "joined", "with a gap"]


@pytest.mark.parametrize("window_samples", [7, 60, 1_000_000])
@pytest.mark.parametrize("kind", KINDS)
def test_windows_hold_the_packets_of_the_whole_with_their_stamps(
    tmp_path: Path, kind: str, window_samples: int
) -> None:
    with opened(made(tmp_path, kind)) as (source, info):
        for track in range(len(info.audio)):
            assert in_windows(source, info, track, window_samples) == packets(source, track)


@pytest.mark.parametrize("start_s", [0.0, 3.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_sound_is_the_same_to_the_sample(
    tmp_path: Path, kind: str, start_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excerpt, "WINDOW_SAMPLES", 50)
    with opened(made(tmp_path, kind)) as (source, info):
        track = len(info.audio) - 1
        windowed = sound_of(source, info, track, start_s)
        monkeypatch.setattr(AudioExcerpts, "of", plain)
        np.testing.assert_array_equal(windowed, sound_of(source, info, track, start_s))


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mkv", "aac", {}),
        ("a.mov", "pcm_s16le", {}),
        ("a.mp4", "aac", {"movflags": "+frag_keyframe+empty_moov", "frag_duration": "500000"}),
        ("a.mp4", "mp3", {}),
    ],
)
def test_whatever_is_not_plain_is_left_to_libavformat(
    tmp_path: Path, name: str, codec: str, options: dict[str, str]
) -> None:
    path = write(tmp_path / name, [Piece(scene(3.0, 44_100, 2))], rate_hz=44_100, codec=codec, **options)
    with opened(path) as (source, info):
        assert AudioExcerpts.of(source, info, 0) is None


def test_a_file_cut_short_is_left_to_libavformat(tmp_path: Path) -> None:
    path = made(tmp_path, "header first")
    os.truncate(path, path.stat().st_size // 2)
    with opened(path) as (source, info):
        assert AudioExcerpts.of(source, info, 0) is None


@pytest.mark.parametrize("claim", [0xFFFFFFFF, 1 << 24, 0])
@pytest.mark.parametrize("table", [b"stsz", b"stts", b"stsc", b"stco", b"elst", b"stsd"])
def test_a_table_that_claims_more_than_it_has_is_not_believed(tmp_path: Path, table: bytes, claim: int) -> None:
    path = made(tmp_path, "plain")
    with opened(path) as (source, info):
        assert AudioExcerpts.of(source, info, 0) is not None
    data = bytearray(path.read_bytes())
    at = data.index(table, data.index(b"moov")) + 8 + (4 if table == b"stsz" else 0)
    data[at : at + 4] = struct.pack(">I", claim)
    path.write_bytes(data)
    with open_source(path) as source:
        assert AudioExcerpts.of(source, info, 0) is None


@pytest.mark.parametrize(("offset", "value"), [(8, 0xFFFFFFFFFFFFFFFF), (16, 0x7FFFFFFFFFFFFFFF), (16, 1 << 30)])
def test_an_edit_beyond_all_bounds_is_left_to_libavformat(tmp_path: Path, offset: int, value: int) -> None:
    """The list as it is, but in 64 bits, with one number replaced."""
    path = made(tmp_path, "plain")
    data = bytearray(path.read_bytes())
    at = data.index(b"elst") + 4
    content = struct.pack(">IIQqI", 1 << 24, 1, 10_000, 1024, 1 << 16)
    content = content[:offset] + struct.pack(">Q", value) + content[offset + 8 :]
    (size,) = struct.unpack(">I", data[at - 8 : at - 4])
    more = len(content) - (size - 8)
    data[at : at + size - 8] = content
    for kind in (b"elst", b"edts", b"trak", b"moov"):
        start = data.rindex(kind, 0, at) - 4
        data[start : start + 4] = struct.pack(">I", struct.unpack(">I", data[start : start + 4])[0] + more)
    path.write_bytes(data)
    with opened(made(tmp_path / "other", "plain")) as (_, info), open_source(path) as source:
        assert AudioExcerpts.of(source, info, 0) is None


def test_windows_of_a_very_fine_clock_lose_nothing(tmp_path: Path) -> None:
    """So fine that the ticks of a window do not fit into 32 bits; and no list of edits says how long the whole is."""
    path, finer = samples.recording(tmp_path, "a.mp4"), 20_000
    data = bytearray(path.read_bytes())
    put(data, b"mdhd", 12, finer * number_in(data, b"mdhd", 12))
    for row in range(number_in(data, b"stts", 4)):
        put(data, b"stts", 12 + 8 * row, finer * number_in(data, b"stts", 12 + 8 * row))
    path.write_bytes(data.replace(b"edts", b"free"))
    with opened(path) as (source, info):
        assert in_windows(source, info, 0, 150) == packets(source, 0)


@pytest.mark.parametrize(("number", "more_bytes"), [(300, 1 << 30), (300, 1 << 24), (-1, 1)])
def test_one_size_that_cannot_be_true_leaves_the_whole_file_to_libavformat(
    tmp_path: Path, number: int, more_bytes: int
) -> None:
    path = made(tmp_path, "header first")
    with opened(path) as (source, info):
        assert AudioExcerpts.of(source, info, 0) is not None
    data = bytearray(path.read_bytes())
    at = 12 + 4 * (number % number_in(data, b"stsz", 8))
    put(data, b"stsz", at, number_in(data, b"stsz", at) + more_bytes)
    path.write_bytes(data)
    with open_source(path) as source:
        assert AudioExcerpts.of(source, info, 0) is None


def test_an_edit_shorter_than_a_tick_is_left_to_libavformat(tmp_path: Path) -> None:
    path = made(tmp_path, "plain")
    data = bytearray(path.read_bytes())
    put(data, b"mvhd", 12, 1_000_000)
    put(data, b"elst", 8, 1)
    path.write_bytes(data)
    with opened(path) as (source, info):
        assert AudioExcerpts.of(source, info, 0) is None


def test_a_movie_header_cut_short_is_left_to_libavformat(tmp_path: Path) -> None:
    path = made(tmp_path, "plain")
    data = bytearray(path.read_bytes().replace(b"edts", b"free"))
    at = data.rindex(b"mvhd") - 4
    data[at : at + 19] = box(b"mvhd", bytes(3)) + struct.pack(">I4s", number_in(data, b"mvhd", -8) - 11, b"free")
    path.write_bytes(data)
    with opened(made(tmp_path / "other", "plain")) as (_, info), open_source(path) as source:
        assert AudioExcerpts.of(source, info, 0) is None


def test_a_track_that_cannot_be_sought_is_damaged_and_no_more(tmp_path: Path) -> None:
    path = samples.recording(tmp_path, "a.mp4", seconds=2)
    with opened(path) as (_, info):
        data = path.read_bytes()
    path.write_bytes(data.replace(b"stsz", b"free"))
    with open_source(path) as source:
        reader = FrameReader(source, info, 0)
        assert not list(reader.frames(1.5))
        assert reader.bad_packets


def test_no_damage_to_the_header_does_more_than_fall_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LONG_BYTES", 0)
    path = samples.recording(tmp_path, "a.mp4", seconds=2)
    with opened(path) as (_, info):
        whole = path.read_bytes()
    start = whole.index(b"moov")
    chance = random.Random(0)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(start, len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        path.write_bytes(data)
        with open_source(path) as source:
            excerpts = AudioExcerpts.of(source, info, 0)
            heads = [] if excerpts is None else list(excerpts.heads(0.5, 10))
            assert sum(map(len, heads)) < 1 << 22
            assert len(opening_head(source)) < 1 << 22


@pytest.mark.parametrize("kind", [*KINDS, "turned", "variable", "PCM"])
def test_the_first_moments_say_of_a_recording_what_the_whole_does(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "LONG_BYTES", 0)
    monkeypatch.setattr(opening, "_CHUNKS_KEPT", 5)
    if kind == "turned":
        path = samples.recording(tmp_path, "turned.mp4", rotation_degrees=90)
    elif kind == "variable":
        path = samples.recording(tmp_path, "variable.mp4", variable_rate=True)
    elif kind == "PCM":
        path = samples.recording(tmp_path, "pcm.mov", sound="pcm_s16le")
    else:
        path = made(tmp_path, kind)
    with opened(path) as (source, info):
        head = opening_head(source)
        assert head
        with source.container(head) as container:
            assert describe(container) == info


def test_padding_in_the_header_is_left_out(tmp_path: Path) -> None:
    path, padding = made(tmp_path, "plain"), 6 << 20
    add_to_header(path, struct.pack(">I4s", 8 + padding, b"free"), sparse_bytes=padding)
    with opened(path) as (source, info):
        head = opening_head(source)
        assert 0 < len(head) < 1 << 20
        with source.container(head) as container:
            assert describe(container) == info


@pytest.mark.parametrize(
    "boxes",
    [
        [box(b"trak", box(b"udta") * 900)] * 5,
        [box(b"minf", box(b"mdia"))],
        [box(b"trak", box(b"trak"))],
        [struct.pack(">I4s", 8 * depth, b"trak") for depth in range(2_000, 0, -1)],
        [box(b"name", bytes(6 << 20))] * 3,
    ],
    ids=["too many boxes", "boxes astray", "a track in a track", "far too deep", "too many bytes"],
)
def test_a_header_out_of_all_bounds_is_opened_as_it_is(
    tmp_path: Path, boxes: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "LONG_BYTES", 0)
    path = made(tmp_path, "plain")
    with open_source(path) as source:
        assert opening_head(source)
    add_to_header(path, *boxes)
    with open_source(path) as source:
        assert opening_head(source) == b""


@pytest.mark.parametrize("table", [b"stsz", b"stts", b"stsc", b"stco"])
def test_tables_with_fewer_rows_than_they_claim_are_opened_as_they_are(
    tmp_path: Path, table: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "LONG_BYTES", 0)
    monkeypatch.setattr(opening, "_CHUNKS_KEPT", 1)
    path = made(tmp_path, "plain")
    data = bytearray(path.read_bytes())
    at = 8 if table == b"stsz" else 4
    put(data, table, at, number_in(data, table, at) + 1)
    path.write_bytes(data)
    with open_source(path) as source:
        assert opening_head(source) == b""


def test_a_short_recording_is_opened_as_it_is(tmp_path: Path) -> None:
    with open_source(made(tmp_path, "plain")) as source:
        assert opening_head(source) == b""


needs_footage = pytest.mark.skipif(not FOOTAGE.is_dir(), reason="the gameplay recordings are not here")


@needs_footage
@pytest.mark.parametrize(
    "name",
    ["moov_end.mp4", "offset_audio.mp4", "mono_22k.mp4", "surround51_48k.mp4", "two_audio.mp4", "audio_only.m4a"],
)
def test_awkward_recordings_are_read_the_same_in_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LONG_BYTES", 0)
    with opened(FOOTAGE / "awkward" / name) as (source, info):
        for track in range(len(info.audio)):
            assert in_windows(source, info, track, 100) == packets(source, track)
        with source.container(opening_head(source)) as container:
            assert describe(container) == info
