"""Data that is missing inside a span is an error in every mode; damage elsewhere is none of its business."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from content_pipeline.errors import CorruptMedia
from content_pipeline.media.render.clip import Mode
from content_pipeline.media.spans import Span
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.unit.media.render.rendering import clip

MODES: tuple[Mode, ...] = ("copy", "smart", "encode")
MIDDLE, BEGINNING = Span(3.1, 5.4), Span(0.2, 1.7)


@pytest.mark.parametrize("name", ["plain.mp4", "plain.mkv", "plain.ts"])
@pytest.mark.parametrize("mode", MODES)
def test_a_hole_inside_the_span_is_corrupt_media(name: str, mode: Mode, sample_folder: Path, tmp_path: Path) -> None:
    whole = samples.recording(sample_folder, name)
    broken = samples.damaged(whole, tmp_path / name, 0.45, 0.6)
    with pytest.raises(CorruptMedia):
        clip(broken, MIDDLE, mode, tmp_path / "clip.nut")
    assert sorted(path.name for path in tmp_path.iterdir()) == [name], "nothing is left behind"


@pytest.mark.parametrize("mode", MODES)
def test_a_hole_elsewhere_does_no_harm(mode: Mode, sample_folder: Path, tmp_path: Path) -> None:
    whole = samples.recording(sample_folder, "plain.mp4")
    broken = samples.damaged(whole, tmp_path / "broken.mp4", 0.45, 0.6)
    assert clip(broken, BEGINNING, mode, tmp_path / "clip.nut").damaged == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["start.mp4", "plain.mkv"])
def test_a_file_cut_short_is_never_a_short_success(name: str, mode: Mode, sample_folder: Path, tmp_path: Path) -> None:
    whole = samples.recording(sample_folder, name, more=("-movflags", "+faststart") if name == "start.mp4" else ())
    half = samples.truncated(whole, tmp_path / name, 0.5)
    with pytest.raises(CorruptMedia):
        clip(half, Span(3.0, 6.0), mode, tmp_path / "clip.nut")


def test_single_damaged_pictures_are_counted_and_passed_over(sample_folder: Path, tmp_path: Path) -> None:
    whole = samples.recording(sample_folder, "plain.mp4")
    with av.open(str(whole)) as container:
        position = [packet.pos for packet in container.demux(video=0) if not packet.is_keyframe][100]
    assert position is not None
    data = bytearray(whole.read_bytes())
    data[position : position + 8] = bytes(8)
    (tmp_path / "scratched.mp4").write_bytes(data)
    made = clip(tmp_path / "scratched.mp4", Span(2.0, 6.0), "copy", tmp_path / "clip.nut")
    assert made.damaged == 1
    assert float(made.ticks * made.time_base) == pytest.approx(4.0, abs=0.2)


def test_a_span_after_the_last_picture_is_refused(sample_folder: Path, tmp_path: Path) -> None:
    whole = samples.recording(sample_folder, "plain.mp4")
    with pytest.raises(CorruptMedia):
        clip(whole, Span(20.0, 22.0), "copy", tmp_path / "clip.nut")
