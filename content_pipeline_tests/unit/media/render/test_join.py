from __future__ import annotations

import json
from pathlib import Path

import av
import pytest

from content_pipeline.media.probe import probe
from content_pipeline.media.render.clip import Clip, ClipOrder, render_clip
from content_pipeline.media.render.encoding import FrameSize
from content_pipeline.media.render.join import join
from content_pipeline.media.render.verify import verify_montage
from content_pipeline.media.source import open_source
from content_pipeline.media.spans import Span
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.unit.media.render.rendering import FAST, LIMITS, clip, render


def test_recordings_of_any_shape_join_once_encoded_to_one_size(sample_folder: Path, tmp_path: Path) -> None:
    wide = samples.recording(sample_folder, "plain.mp4")
    tall = samples.recording(sample_folder, "tall.mp4", size=(180, 320), fps=25, rate_hz=22_050, channels=1)
    mute = samples.recording(sample_folder, "mute.mp4", size=(160, 120), sound=None, variable_rate=True)
    size = FrameSize(320, 240)
    clips = [
        clip(path, Span(1.0, 2.5), "encode", tmp_path / f"{path.stem}.nut", size=size) for path in (wide, tall, mute)
    ]
    montage = join(clips, FAST, tmp_path / "montage.mp4")
    verify_montage(montage, 4.5)
    with av.open(str(montage.path)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height) == (320, 240)
        assert len(list(container.decode(stream))) == 135


def test_clips_of_different_sizes_are_refused(sample_folder: Path, tmp_path: Path) -> None:
    wide = clip(samples.recording(sample_folder, "plain.mp4"), Span(1, 2), "encode", tmp_path / "a.nut")
    tall_path = samples.recording(sample_folder, "tall.mp4", size=(180, 320), fps=25, rate_hz=22_050, channels=1)
    tall = clip(tall_path, Span(1, 2), "encode", tmp_path / "b.nut")
    with pytest.raises(ValueError, match="different sizes"):
        join([wide, tall], FAST, tmp_path / "montage.mp4")
    assert not (tmp_path / "montage.mp4").exists()


@pytest.mark.parametrize("mode", ["copy", "smart", "encode"])
def test_without_a_sound_track_the_montage_has_none(mode: str, sample_folder: Path, tmp_path: Path) -> None:
    path = samples.recording(sample_folder, "plain.mp4")
    settings = FAST.model_copy(update={"mode": mode})
    rendered = render(path, [Span(1.2, 2.4), Span(4.0, 5.1)], tmp_path, settings, track=None)
    assert not rendered.montage.has_sound


def test_the_index_comes_first_so_that_playing_starts_at_once(sample_folder: Path, tmp_path: Path) -> None:
    rendered = render(samples.recording(sample_folder, "plain.mp4"), [Span(1.2, 2.4)], tmp_path)
    data = rendered.montage.path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_copied_packets_are_the_recordings_own(sample_folder: Path, tmp_path: Path) -> None:
    path = samples.recording(sample_folder, "plain.mp4")
    rendered = render(path, [Span(2.0, 4.0)], tmp_path, FAST.model_copy(update={"mode": "copy"}))
    with av.open(str(path)) as container:
        own = {bytes(packet) for packet in container.demux(video=0)}
    with av.open(str(rendered.montage.path)) as container:
        copied = {bytes(packet) for packet in container.demux(video=0)}
    assert len(copied) > 55
    assert len(copied - own) <= 1, "only an empty last packet, or a first one without repeated headers, may differ"


def test_a_clip_survives_its_way_through_json(sample_folder: Path, tmp_path: Path) -> None:
    path = samples.recording(sample_folder, "plain.mp4")
    made = clip(path, Span(1.2, 2.4), "smart", tmp_path / "clip.nut")
    assert Clip.from_json(json.loads(json.dumps(made.as_json())), made.path) == made


def test_a_renamed_clip_is_still_joined(sample_folder: Path, tmp_path: Path) -> None:
    made = clip(samples.recording(sample_folder, "plain.mp4"), Span(1.2, 2.4), "copy", tmp_path / "part")
    moved = Clip.from_json(made.as_json(), made.path.rename(tmp_path / "whole"))
    verify_montage(join([moved], FAST, tmp_path / "montage.mp4"))


def test_progress_of_an_encode_rises_to_one(sample_folder: Path, tmp_path: Path) -> None:
    seen: list[float] = []
    path = samples.recording(sample_folder, "plain.mp4")
    with open_source(path) as source:
        info = probe(source)
        order = ClipOrder(source, info, 0, Span(1, 7), "encode", FAST, LIMITS, tmp_path / "clip.nut")
        render_clip(order, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
