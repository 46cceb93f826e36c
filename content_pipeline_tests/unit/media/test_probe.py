"""What a recording says of itself, and what is refused before anything is decoded."""

from pathlib import Path
from typing import Any

import pytest

from content_pipeline.errors import LimitExceeded, NotAVideo
from content_pipeline.media.curves.measure import measure
from content_pipeline.media.probe import probe
from content_pipeline.media.source import open_source
from content_pipeline.settings import EnergySettings, LimitSettings
from content_pipeline_tests.helpers import samples


@pytest.mark.parametrize(("known", "unknown", "kind"), [(b"avc1", b"zq71", "video"), (b"sowt", b"zq7t", "audio")])
def test_a_track_in_an_unknown_format_is_refused_by_name(
    known: bytes, unknown: bytes, kind: str, tmp_path: Path
) -> None:
    made = samples.recording(tmp_path, "made.mov", seconds=1, sound="pcm_s16le", bursts=())
    odd = tmp_path / "odd.mov"
    odd.write_bytes(made.read_bytes().replace(known, unknown))
    with open_source(odd) as source, pytest.raises(NotAVideo, match=f"{kind} in an unknown format"):
        probe(source)


@pytest.mark.parametrize("ending", ["mp4", "mov", "mkv", "ts", "avi"])
def test_a_stream_more_than_allowed_is_refused(ending: str, tmp_path: Path) -> None:
    many = samples.recording(tmp_path, f"many.{ending}", seconds=1, bursts=(), more=("-map", "1:a") * 6)
    with open_source(many, limits=LimitSettings(max_streams=8)) as source:
        assert len(probe(source).audio) == 7
    with (
        open_source(many, limits=LimitSettings(max_streams=7)) as source,
        pytest.raises(LimitExceeded, match=r"7 streams \(limits\.max_streams\)"),
    ):
        probe(source)


def test_a_picture_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    made = samples.recording(tmp_path, "made.mp4", seconds=1, bursts=())
    limits = LimitSettings(max_pixels=320 * 180 - 1)
    with open_source(made, limits=limits) as source, pytest.raises(LimitExceeded, match="320x180"):
        probe(source)


def test_pictures_that_grow_past_the_limit_on_the_way_are_not_decoded(tmp_path: Path) -> None:
    small = samples.recording(tmp_path, "small.ts", seconds=1, bursts=())
    large = samples.recording(tmp_path, "large.ts", seconds=1, size=(640, 360), bursts=())
    (tmp_path / "grows.ts").write_bytes(small.read_bytes() + large.read_bytes())
    for limits, sizes in (
        (LimitSettings(), {(320, 180), (640, 360)}),
        (LimitSettings(max_pixels=320 * 180), {(320, 180)}),
    ):
        with open_source(tmp_path / "grows.ts", limits=limits) as source:
            assert _decoded_sizes(source) == sizes


def _decoded_sizes(source: Any) -> set[tuple[int, int]]:
    import av

    found: set[tuple[int, int]] = set()
    with source.container() as container:
        for packet in container.demux(video=0):
            try:
                found |= {(frame.width, frame.height) for frame in packet.decode()}
            except av.error.FFmpegError:
                continue
    return found


def test_sound_longer_than_allowed_is_not_measured_whatever_was_declared(tmp_path: Path) -> None:
    made = samples.recording(tmp_path, "made.mp4", seconds=8)
    with open_source(made) as source:
        info = probe(source)
    with open_source(made, limits=LimitSettings(max_duration_s=3)) as source:
        with pytest.raises(LimitExceeded, match=r"lasts 8 s"):
            probe(source)
        with pytest.raises(LimitExceeded, match=r"limits\.max_duration_s is 3"):
            measure(source, info, EnergySettings(), (1.0, 5.0))
