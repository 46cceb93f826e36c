from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from content_pipeline.media.probe import probe
from content_pipeline.media.render.render_mode import ModeChoice, choose_mode
from content_pipeline.media.source import open_source
from content_pipeline.media.spans import Span
from content_pipeline.settings import RenderSettings
from content_pipeline_tests.helpers import samples

SPANS = (Span(1.2, 5.9), Span(6.1, 7.9))


def _chosen(path: Path, mode: str = "auto") -> ModeChoice:
    with open_source(path) as source:
        return choose_mode(source, probe(source), SPANS, RenderSettings(mode=mode))


@pytest.mark.parametrize(
    ("name", "options", "mode", "because"),
    [
        ("plain.mp4", {}, "copy", "keyframes at most 2 s apart"),
        ("plain.ts", {}, "copy", "keyframes at most 2 s apart"),
        ("gop3.mp4", {"gop": 72}, "smart", "is copied"),
        ("single_key.mp4", {"gop": 9999}, "encode", "could copy only 0%"),
        ("open.mkv", {"open_gop": True}, "encode", "no keyframe to start at"),
        ("hevc.mp4", {"codec": "libx265"}, "encode", "hevc, not H.264"),
        ("odd.mp4", {"size": (321, 181), "pixel_format": "yuv444p"}, "encode", "yuv444p"),
        ("rotated.mp4", {"rotation_degrees": 90}, "encode", "rotated by 90 degrees"),
        ("ten_bit.mp4", {"pixel_format": "yuv420p10le"}, "encode", "yuv420p10le"),
        ("wide_pixels.mp4", {"more": ("-aspect", "4:3")}, "encode", "not square"),
    ],
)
def test_auto_takes_the_cheapest_way_that_looks_right(
    name: str, options: dict[str, Any], mode: str, because: str, sample_folder: Path
) -> None:
    choice = _chosen(samples.recording(sample_folder, name, **options))
    assert choice.mode == mode
    assert because in choice.reason


@pytest.mark.parametrize("mode", ["copy", "smart", "encode"])
def test_a_mode_that_works_is_taken_when_asked_for(mode: str, sample_folder: Path) -> None:
    choice = _chosen(samples.recording(sample_folder, "plain.mp4"), mode)
    assert choice.mode == mode
    assert "as render.mode asks" in choice.reason


@pytest.mark.parametrize("mode", ["copy", "smart"])
def test_a_mode_that_cannot_work_gives_way_to_encoding_and_says_so(mode: str, sample_folder: Path) -> None:
    choice = _chosen(samples.recording(sample_folder, "hevc.mp4", codec="libx265"), mode)
    assert choice.mode == "encode"
    assert f"although render.mode is {mode}" in choice.reason
