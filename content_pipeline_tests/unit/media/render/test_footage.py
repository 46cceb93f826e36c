"""Real gameplay in every awkward wrapping, where the footage is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from content_pipeline.media.spans import Span
from content_pipeline.settings import RenderSettings
from content_pipeline_tests.helpers.footage import FOOTAGE
from content_pipeline_tests.unit.media.render.rendering import plan_error_frames, render, worst_error

SPANS = (Span(3.2, 4.9), Span(6.05, 7.37))
FILES = {
    "gameplay/base_40s.mp4": "copy",
    "awkward/container.avi": "encode",
    "awkward/container.mkv": "copy",
    "awkward/container.ts": "copy",
    "awkward/container.webm": "encode",
    "awkward/frag.mp4": "copy",
    "awkward/hevc.mp4": "encode",
    "awkward/long_gop.mp4": "encode",
    "awkward/mono_22k.mp4": "copy",
    "awkward/moov_end.mp4": "copy",
    "awkward/odd_size_yuv444.mp4": "encode",
    "awkward/offset_audio.mp4": "copy",
    "awkward/open_gop_bframes.mkv": "encode",
    "awkward/rotated90.mp4": "encode",
    "awkward/start_pts_1h.mkv": "copy",
    "awkward/surround51_48k.mp4": "copy",
    "awkward/two_audio.mp4": "copy",
    "awkward/vfr.mp4": "encode",
}


@pytest.mark.skipif(not FOOTAGE.is_dir(), reason="the footage is not beside the repository")
@pytest.mark.parametrize("name", FILES)
def test_auto_renders_real_footage_right(name: str, tmp_path: Path) -> None:
    path = FOOTAGE / name
    track = 1 if "two_audio" in name else 0
    rendered = render(path, SPANS, tmp_path, RenderSettings(preset="ultrafast"), track)
    error = worst_error(rendered, path, track, until_s=10.0)
    assert rendered.choice.mode == FILES[name]
    assert max(error.start_frames, error.end_frames) <= 1
    assert error.sound_ms is not None
    assert error.sound_ms < 16.7
    if rendered.choice.mode == "encode":
        assert plan_error_frames(rendered, SPANS) <= 1
