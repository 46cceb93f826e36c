"""Every way to render, on every kind of recording: the right pictures and the right sound at every cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from content_pipeline.media.spans import Span
from content_pipeline.settings import RenderSettings
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.unit.media.render.rendering import plan_error_frames, render, worst_error

SPANS = (Span(0.73, 2.9), Span(3.35, 4.6), Span(5.07, 7.52))

RECORDINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("plain.mp4", {}),
    "long_gop": ("long_gop.mp4", {"gop": 100}),
    "matroska": ("plain.mkv", {}),
    "transport_stream": ("two_seconds.ts", {"gop": 60}),
    "fragmented": ("frag.mp4", {"more": ("-movflags", "frag_keyframe+empty_moov")}),
    "sixty_fps": ("sixty.mp4", {"fps": 60.0, "gop": 60, "rate_hz": 48_000}),
    "variable_rate": ("variable.mp4", {"variable_rate": True}),
    "late_sound": ("late.mp4", {"sound_offset_s": 1.2}),
    "starts_at_an_hour": ("hour.mkv", {"start_s": 3600.0}),
    "second_track": ("two.mp4", {"silent_first_track": True}),
    "low_rate_mono": ("mono.mp4", {"rate_hz": 22_050, "channels": 1}),
    "surround": ("surround.mp4", {"channels": 6, "rate_hz": 48_000}),
    "pcm_sound": ("pcm.mkv", {"sound": "pcm_s16le"}),
    "hevc": ("hevc.mp4", {"codec": "libx265"}),
    "odd_size_444": ("odd.mp4", {"size": (321, 181), "pixel_format": "yuv444p"}),
    "rotated": ("rotated.mp4", {"rotation_degrees": 90}),
    "webm": ("plain.webm", {"codec": "libvpx", "size": (160, 90), "sound": "libopus", "rate_hz": 48_000}),
    "avi": ("plain.avi", {"codec": "mpeg4", "sound": "libmp3lame"}),
    "h264_avi": ("h264.avi", {"sound": "libmp3lame", "bframes": 0}),
    "flv": ("plain.flv", {}),
    "open_gop": ("open.mkv", {"open_gop": True}),
}
COPYABLE = (
    "plain",
    "matroska",
    "transport_stream",
    "fragmented",
    "sixty_fps",
    "variable_rate",
    "late_sound",
    "starts_at_an_hour",
    "second_track",
    "low_rate_mono",
    "surround",
    "pcm_sound",
)
ENCODED = (
    "matroska",
    "transport_stream",
    "variable_rate",
    "late_sound",
    "starts_at_an_hour",
    "second_track",
    "surround",
    "hevc",
    "odd_size_444",
    "rotated",
    "webm",
    "avi",
    "open_gop",
)
SMART = ("plain", "long_gop", "matroska", "transport_stream", "sixty_fps", "variable_rate", "late_sound", "pcm_sound")


def _made(folder: Path, kind: str) -> tuple[Path, int]:
    name, options = RECORDINGS[kind]
    return samples.recording(folder, name, **options), int(bool(options.get("silent_first_track")))


@pytest.mark.parametrize("kind", ENCODED)
def test_an_encoded_montage_shows_what_was_planned(kind: str, sample_folder: Path, tmp_path: Path) -> None:
    path, track = _made(sample_folder, kind)
    rendered = render(path, SPANS, tmp_path, RenderSettings(mode="encode", preset="ultrafast"), track)
    error = worst_error(rendered, path, track)
    assert plan_error_frames(rendered, SPANS) <= 1
    assert max(error.start_frames, error.end_frames) <= 1
    assert error.sound_ms is not None
    assert error.sound_ms < 10


@pytest.mark.parametrize("kind", SMART)
def test_a_smart_montage_is_accurate_to_the_frame(kind: str, sample_folder: Path, tmp_path: Path) -> None:
    path, track = _made(sample_folder, kind)
    rendered = render(path, SPANS, tmp_path, RenderSettings(mode="smart", preset="ultrafast"), track)
    error = worst_error(rendered, path, track)
    assert rendered.choice.mode == "smart"
    assert plan_error_frames(rendered, SPANS) <= 1.01
    assert max(error.start_frames, error.end_frames) <= 1
    assert error.sound_ms is not None
    assert error.sound_ms < 16.7


@pytest.mark.parametrize("kind", COPYABLE)
def test_a_copied_montage_covers_the_plan_and_stays_in_step(kind: str, sample_folder: Path, tmp_path: Path) -> None:
    path, track = _made(sample_folder, kind)
    rendered = render(path, SPANS, tmp_path, RenderSettings(mode="copy"), track)
    error = worst_error(rendered, path, track)
    assert rendered.choice.mode == "copy"
    assert max(error.start_frames, error.end_frames) <= 1
    assert error.sound_ms is not None
    assert error.sound_ms < 16.7
    for cut, span in zip(rendered.montage.cuts, SPANS, strict=True):
        assert cut.source.start_s <= span.start_s
        assert cut.source.end_s >= span.end_s - 0.02


@pytest.mark.parametrize("mode", ["copy", "smart", "encode"])
def test_sound_does_not_drift_over_many_cuts(mode: Any, sample_folder: Path, tmp_path: Path) -> None:
    path, _ = _made(sample_folder, "plain")
    spans = [Span(0.21 + index * 0.57, 0.21 + index * 0.57 + 0.713) for index in range(12)]
    rendered = render(path, spans, tmp_path, RenderSettings(mode=mode, preset="ultrafast"))
    error = worst_error(rendered, path)
    assert error.sound_ms is not None
    assert error.sound_ms < 16.7


@pytest.mark.parametrize("kind", ["plain", "matroska", "transport_stream", "webm", "avi", "h264_avi", "flv"])
def test_a_highlight_at_the_very_start_is_cut_from_every_container(
    kind: str, sample_folder: Path, tmp_path: Path
) -> None:
    path, _ = _made(sample_folder, kind)
    rendered = render(path, [Span(0.0, 3.0)], tmp_path)
    error = worst_error(rendered, path)
    assert max(error.start_frames, error.end_frames) <= 1
    assert error.sound_ms is not None
    assert error.sound_ms < 16.7
