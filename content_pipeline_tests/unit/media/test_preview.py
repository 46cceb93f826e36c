"""The pictures a person looks at, looked at."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from content_pipeline.errors import NoPicture
from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.detection.detector import Candidate
from content_pipeline.media.preview.canvas import clock, drawable, fitted, font
from content_pipeline.media.preview.contact_sheet import contact_sheet
from content_pipeline.media.preview.envelope import envelope
from content_pipeline.media.preview.plot import (
    BAND,
    DROPPED_LANE,
    HEIGHT_PX,
    KEPT_LANE,
    PLOT,
    WIDTH_PX,
    DetectionsPlot,
    detections_plot,
)
from content_pipeline.media.preview.stills import NEAR_S, Still, stills
from content_pipeline.media.preview.thumbnail import thumbnail
from content_pipeline.media.probe import MediaInfo, probe
from content_pipeline.media.selection.highlights import Highlight
from content_pipeline.media.source import open_source
from content_pipeline.media.spans import Scene, Span

MINUTE_S = 60.0
FPS = 10


def quiet_curve(duration_s: float) -> np.ndarray:
    frames = int(duration_s * FRAME_RATE_HZ)
    return np.random.default_rng(7).normal(-50, 2, frames).astype(np.float32)


def plot(
    duration_s: float = MINUTE_S,
    candidates: Sequence[Candidate] = (),
    highlights: Sequence[Highlight] = (),
    title: str = "evening.mp4",
    level: np.ndarray | None = None,
    threshold: np.ndarray | None = None,
    unit: str = "dB",
) -> np.ndarray:
    level = quiet_curve(duration_s) if level is None else level
    threshold = np.full(len(level), -40.0) if threshold is None else threshold
    return pixels(detections_plot(DetectionsPlot(title, level, threshold, unit, duration_s, candidates, highlights)))


def pixels(picture: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int)


def column(seconds: float, duration_s: float = MINUTE_S) -> int:
    return PLOT.left + round(seconds / duration_s * PLOT.width)


def is_green(pixel: np.ndarray) -> bool:
    return bool(pixel[1] > pixel[0] + 10)


def is_white(pixel: np.ndarray) -> bool:
    return bool((pixel == 255).all())


# The detections plot.


def test_the_plot_is_a_small_png_of_a_fixed_size() -> None:
    level = quiet_curve(3600)
    threshold = np.full(len(level), -40.0)
    data = detections_plot(DetectionsPlot("an hour", level, threshold, "dB", 3600, [], []))
    picture = Image.open(io.BytesIO(data))
    assert (picture.format, picture.size) == ("PNG", (WIDTH_PX, HEIGHT_PX))
    assert len(data) < 40_000


def test_the_paper_is_white() -> None:
    assert is_white(plot()[0, 0])


def test_highlights_are_bands_where_they_belong() -> None:
    picture = plot(highlights=[Highlight(Span(10, 20), 1.0), Highlight(Span(40, 45), 2.0)])
    row = picture[BAND.top + 1]
    assert [is_green(row[column(second)]) for second in (5, 11, 19, 30, 41, 44, 50)] == [
        False, True, True, False, True, True, False,
    ]  # fmt: skip


def test_a_band_lets_the_curve_show_through() -> None:
    level = np.full(int(MINUTE_S * FRAME_RATE_HZ), -50.0)
    picture = plot(level=level, threshold=np.full(len(level), np.nan), highlights=[Highlight(Span(10, 20), 1.0)])
    inside, outside = (picture[PLOT.top + 20 : PLOT.bottom, column(second)].sum(axis=1) for second in (12, 32))
    assert inside.argmin() == outside.argmin()
    assert inside.min() < np.median(inside) - 150
    assert np.median(inside) < np.median(outside)


def test_kept_and_dropped_stand_in_lanes_of_their_own() -> None:
    picture = plot(candidates=[Candidate(Span(10, 14), 1.0), Candidate(Span(30, 30.1), 1.0, "too short")])
    kept, dropped = (
        picture[lane.top : lane.bottom, PLOT.left : PLOT.right].reshape(-1, PLOT.width, 3)
        for lane in (KEPT_LANE, DROPPED_LANE)
    )
    blue = np.flatnonzero((kept[..., 2] > kept[..., 0] + 100).any(axis=0)) + PLOT.left
    red = np.flatnonzero((dropped[..., 0] > dropped[..., 2] + 100).any(axis=0)) + PLOT.left
    assert abs(blue.min() - column(10)) <= 1
    assert abs(blue.max() - column(14)) <= 1
    assert abs(red.mean() - column(30.05)) <= 2


def test_every_rule_has_a_shape_of_its_own() -> None:
    rules = ["too short", "weak contrast", "not broadband", "duration limit"]
    dropped = [Candidate(Span(10 * n, 10 * n + 0.1), 1.0, rule) for n, rule in enumerate(rules, start=1)]
    picture = plot(candidates=dropped)
    lane = picture[DROPPED_LANE.top : DROPPED_LANE.bottom]
    places = [column(candidate.span.start_s + 0.05) for candidate in dropped]
    shapes = [lane[:, x - 6 : x + 7] for x in places]
    inks = {int((shape[..., 0] > shape[..., 2] + 60).sum()) for shape in shapes}
    assert len(inks) == 4


def test_the_legend_names_the_rules_that_dropped_something() -> None:
    legend = slice(38, 60)
    nothing_dropped = plot(candidates=[Candidate(Span(10, 14), 1.0)])[legend]
    dropped = plot(candidates=[Candidate(Span(10, 14), 1.0), Candidate(Span(30, 30.1), 1.0, "too_short")])[legend]
    assert (dropped != nothing_dropped).any()


def test_the_legend_stays_inside_the_picture_whatever_the_rules_are_called() -> None:
    candidates = [Candidate(Span(n, n + 0.1), 1.0, f"rule {n} " + "that is long " * 9) for n in range(12)]
    picture = plot(candidates=candidates, highlights=[Highlight(Span(1, 2), 1.0)])
    assert (picture[38:60, PLOT.right + 4 :] == 255).all()


@pytest.mark.parametrize("candidates", [[], [Candidate(Span(5, 5.1), 1.0, "too short")]], ids=["none", "all dropped"])
def test_a_recording_without_events_says_so_in_the_picture(candidates: list[Candidate]) -> None:
    lane = slice(KEPT_LANE.top - 2, KEPT_LANE.bottom + 2), slice(column(25), column(35))
    silent = plot(candidates=candidates)[lane]
    eventful = plot(candidates=[*candidates, Candidate(Span(1, 2), 1.0)])[lane]
    assert (silent.sum(axis=2) < 300).any()
    assert not (eventful.sum(axis=2) < 300).any()


HOSTILE_TITLES = [
    "",
    " ",
    "a\nb\tc\x00d\x1b[31m",
    "🎮🔥👨‍👩‍👧 montage",
    "שלום עולם مرحبا",
    "\u202egpj.exe",
    "\udcff\udc80.mp4",
    "日本語のファイル名.mkv",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘",
    "x" * 100_000,
    "\ufdfa" * 500,
]


@pytest.mark.parametrize("title", HOSTILE_TITLES, ids=lambda title: repr(ascii(title))[:24])
def test_any_file_name_can_be_a_title(title: str) -> None:
    picture = plot(title=title, unit=title, candidates=[Candidate(Span(1, 2), 1.0, title)])
    assert picture.shape == (HEIGHT_PX, WIDTH_PX, 3)
    assert all(" " <= char <= "~" or char in "…·“”‘’" for char in drawable(title[:300]))


def test_letters_the_font_lacks_become_their_plain_form_or_a_question_mark() -> None:
    assert drawable("café – 日本\n") == "cafe - ???"


def test_a_long_title_keeps_both_ends() -> None:
    short = fitted("2024-11-02 " + "very " * 100 + "long.mp4", 18, 300)
    assert short.startswith("2024-11-02")
    assert short.endswith("long.mp4")
    assert font(18).getlength(short) <= 300


@pytest.mark.parametrize(
    ("level", "threshold"),
    [
        (np.array([]), np.array([])),
        (np.array([-50.0]), np.array([-40.0])),
        (np.full(2000, -np.inf), np.full(2000, np.inf)),
        (np.full(2000, np.nan), np.full(2000, np.nan)),
        (np.zeros(2000), np.zeros(2000)),
        (np.where(np.arange(2000) % 2, -np.inf, -30.0), np.full(2000, -40.0)),
        (np.full(2000, 1e30), np.full(2000, -1e30)),
        (quiet_curve(600), quiet_curve(10)),
    ],
    ids=["nothing", "one frame", "infinite", "not a number", "zero", "with silence", "huge", "uneven"],
)
@pytest.mark.parametrize("duration_s", [0.0, 0.02, MINUTE_S, 200_000.0, float("nan")])
def test_any_curve_can_be_drawn(level: np.ndarray, threshold: np.ndarray, duration_s: float) -> None:
    outside = [Candidate(Span(-5, 1e6), 1.0), Candidate(Span(1e6, 1e6 + 1), 1.0, "too short")]
    picture = plot(duration_s, outside, [Highlight(Span(-5, 1e6), 1.0)], level=level, threshold=threshold)
    assert picture.shape == (HEIGHT_PX, WIDTH_PX, 3)


def test_one_loud_frame_in_half_a_day_is_seen() -> None:
    level = quiet_curve(43_200)
    level[len(level) // 2] = -5
    seen = envelope(level, FRAME_RATE_HZ, 43_200, 1000)
    assert seen.high.argmax() in (499, 500)
    assert seen.high.max() == -5


def test_a_curve_that_ends_early_leaves_the_rest_empty() -> None:
    seen = envelope(quiet_curve(30), FRAME_RATE_HZ, 60, 100)
    assert np.isfinite(seen.high[:49]).all()
    assert np.isnan(seen.high[51:]).all()


@pytest.mark.parametrize(
    ("seconds", "hours", "decimals", "text"),
    [(0, False, 0, "0:00"), (65, False, 0, "1:05"), (59.96, False, 1, "1:00.0"), (3725, True, 0, "1:02:05")],
)
def test_times_read_like_a_players(seconds: float, hours: bool, decimals: int, text: str) -> None:
    assert clock(seconds, hours=hours, decimals=decimals) == text


# The contact sheet.


def shade(second: float) -> int:
    """The red that a recording below shows at a moment."""
    return 20 + 7 * round(second * FPS)


def record(
    path: Path,
    seconds: float = 3.0,
    codec: str = "libx264",
    keyframe_every: int = 5,
    size: tuple[int, int] = (160, 90),
    first_s: int = 0,
    pixel_format: str = "yuv420p",
    sample_aspect: Fraction = Fraction(1),
) -> Path:
    """A recording that reddens with time; its left half also holds blue, to tell its sides apart."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=FPS)
        stream.width, stream.height, stream.pix_fmt = *size, pixel_format
        stream.codec_context.gop_size = keyframe_every
        stream.codec_context.sample_aspect_ratio = sample_aspect
        if codec == "libx264":
            stream.options = {"preset": "ultrafast", "crf": "10", "x264-params": "scenecut=0"}
        for index in range(round(seconds * FPS)):
            picture = np.zeros((size[1], size[0], 3), np.uint8)
            picture[..., 0] = shade(index / FPS)
            picture[:, : size[0] // 2, 2] = 200
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index + first_s * FPS, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def look(path: Path, spans: Sequence[Span], size: tuple[int, int] = (160, 160)) -> list[Still | None]:
    with open_source(path) as source:
        return stills(source, probe(source), list(map(Scene.of, spans)), size)


def sheet(path: Path, spans: Sequence[Span], **layout: int) -> Any:
    with open_source(path) as source:
        data = contact_sheet(source, probe(source), list(map(Scene.of, spans)), **layout)
    return Image.open(io.BytesIO(data))


def red_of(still: Still | None) -> int:
    assert still is not None
    return int(np.asarray(still.image)[..., 0].mean())


def damage_packets(path: Path, first_s: float, end_s: float) -> None:
    with av.open(str(path)) as container:
        places = [
            (packet.pos, packet.size)
            for packet in container.demux(video=0)
            if packet.pts is not None and first_s <= packet.pts * packet.time_base < end_s
        ]
    with path.open("r+b") as file:
        for position, size in places:
            file.seek(position)
            file.write(b"\xff" * size)


def test_the_sheet_is_a_jpeg_with_a_tile_per_highlight(tmp_path: Path) -> None:
    picture = sheet(record(tmp_path / "a.mp4"), [Span(0, 1), Span(1, 2), Span(2, 3)], columns=2, thumb_width=160)
    assert picture.format == "JPEG"
    assert picture.size == (2 * (160 + 12) + 12, 2 * (90 + 26 + 12) + 6)
    reds = [
        picture.getpixel((12 + 120 + column * 172, 12 + 45 + row * 128))[0] for column, row in [(0, 0), (1, 0), (0, 1)]
    ]
    assert reds == pytest.approx([shade(0.5), shade(1.5), shade(2.5)], abs=12)


def test_the_sheet_shows_twelve_highlights_and_counts_the_rest(tmp_path: Path) -> None:
    path = record(tmp_path / "a.mp4")
    many = [Span(index / 10, index / 10 + 0.2) for index in range(20)]
    all_shown, some_left_out = sheet(path, many[:12]), sheet(path, many)
    assert all_shown.width == some_left_out.width
    assert some_left_out.height == all_shown.height + 26


def test_no_highlights_make_a_sheet_that_says_so(tmp_path: Path) -> None:
    picture = np.asarray(sheet(record(tmp_path / "a.mp4"), []))
    assert picture.max() > 120


def test_a_keyframe_inside_the_highlight_is_enough(tmp_path: Path) -> None:
    (still,) = look(record(tmp_path / "a.mp4"), [Span(1.1, 2.1)])
    assert still is not None
    assert still.at_s == pytest.approx(1.5)
    assert red_of(still) == pytest.approx(shade(1.5), abs=8)


@pytest.mark.parametrize("keyframe_every", [5, 20, 1000])
def test_the_moment_that_is_asked_for_is_shown_not_the_middle(tmp_path: Path, keyframe_every: int) -> None:
    with open_source(record(tmp_path / "a.mp4", keyframe_every=keyframe_every)) as source:
        (still,) = stills(source, probe(source), [Scene(Span(0, 3), at_s=2.5)], (160, 160))
    assert still is not None
    assert still.at_s == pytest.approx(2.5, abs=NEAR_S)
    assert red_of(still) == pytest.approx(shade(still.at_s), abs=8)


def test_past_the_budget_the_nearest_keyframe_of_the_highlight_stands_in(tmp_path: Path) -> None:
    with open_source(record(tmp_path / "a.mp4", keyframe_every=15)) as source:
        info = probe(source)
        assert info.video is not None
        costly = replace(info, video=replace(info.video, frame_rate=1e9))
        (still,) = stills(source, costly, [Scene(Span(1, 3), at_s=2.9)], (160, 160))
    assert still is not None
    assert still.at_s == pytest.approx(1.5, abs=0.01)


def test_without_a_keyframe_in_the_highlight_its_middle_is_decoded(tmp_path: Path) -> None:
    spans = [Span(2.2, 2.8), Span(0.5, 0.9), Span(1.4, 1.6), Span(1.4, 1.6)]
    found = look(record(tmp_path / "a.mp4", keyframe_every=1000), spans)
    assert [red_of(still) for still in found] == pytest.approx([shade(2.5), shade(0.7), shade(1.5), shade(1.5)], abs=8)


def test_past_the_budget_the_keyframe_before_stands_in_and_says_when_it_is_from(tmp_path: Path) -> None:
    with open_source(record(tmp_path / "a.mp4", keyframe_every=1000)) as source:
        info = probe(source)
        assert info.video is not None
        costly = replace(info, video=replace(info.video, frame_rate=1e9))
        (still,) = stills(source, costly, [Scene.of(Span(2, 3))], (160, 160))
        said, unsaid = (pixels(contact_sheet(source, claim, [Scene.of(Span(2, 3))])) for claim in (costly, info))
    assert still is not None
    assert still.at_s == 0
    caption = slice(12 + 180, None), slice(100, 250)
    assert said[caption].max() > unsaid[caption].max() + 50


@pytest.mark.parametrize(
    ("name", "codec", "pixel_format", "size"),
    [
        ("a.mkv", "libx264", "yuv420p", (160, 90)),
        ("a.ts", "libx264", "yuv420p", (160, 90)),
        ("a.mp4", "libx264", "yuv444p", (161, 91)),
        ("a.avi", "mpeg4", "yuv420p", (160, 90)),
        ("a.webm", "libvpx", "yuv420p", (160, 90)),
    ],
)
def test_containers_and_formats_show_the_right_moment(
    tmp_path: Path, name: str, codec: str, pixel_format: str, size: tuple[int, int]
) -> None:
    path = record(tmp_path / name, codec=codec, pixel_format=pixel_format, size=size, keyframe_every=10)
    spans = [Span(0.35, 0.65), Span(1.2, 1.8), Span(2.25, 2.55)]
    for span, still in zip(spans, look(path, spans), strict=True):
        assert still is not None
        assert span.start_s <= still.at_s < span.end_s
        assert red_of(still) == pytest.approx(shade(still.at_s), abs=12)


def test_times_count_from_the_recordings_own_start(tmp_path: Path) -> None:
    (still,) = look(record(tmp_path / "a.mkv", first_s=3600), [Span(1.4, 1.6)])
    assert still is not None
    assert still.at_s == pytest.approx(1.5, abs=0.06)
    assert red_of(still) == pytest.approx(shade(1.5), abs=8)


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_turned_recording_is_shown_as_ffmpeg_turns_it(tmp_path: Path, turn: int) -> None:
    import imageio_ffmpeg

    ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y"]
    upright, turned, shown = record(tmp_path / "a.mp4"), tmp_path / "turned.mp4", tmp_path / "shown.png"
    subprocess.run([*ffmpeg, "-display_rotation", str(turn), "-i", upright, "-c", "copy", turned], check=True)
    subprocess.run([*ffmpeg, "-ss", "1", "-i", turned, "-frames:v", "1", shown], check=True)
    expected = Image.open(shown)
    (still,) = look(turned, [Span(0.9, 1.3)])
    assert still is not None
    assert still.image.size == expected.size
    assert np.abs(np.asarray(still.image).astype(int) - np.asarray(expected.convert("RGB"))).mean() < 6


def test_wide_pixels_make_a_wide_picture(tmp_path: Path) -> None:
    (still,) = look(record(tmp_path / "a.mkv", sample_aspect=Fraction(2)), [Span(0, 1)], size=(320, 320))
    assert still is not None
    assert still.image.size == (320, 90)


def test_a_damaged_highlight_gets_a_grey_tile_and_the_others_their_picture(tmp_path: Path) -> None:
    path = record(tmp_path / "a.mp4", keyframe_every=10)
    damage_packets(path, 1.0, 2.0)
    spans = [Span(0.2, 0.8), Span(1.2, 1.8), Span(2.2, 2.8)]
    found = look(path, spans)
    assert [still is None for still in found] == [False, True, False]
    tile = np.asarray(sheet(path, spans, thumb_width=160))[12:102, 12 + 172 : 172 + 172].astype(int)
    assert np.ptp(tile, axis=2).max() < 40
    assert tile.max() > 180  # the word on it


def test_a_truncated_recording_gives_pictures_up_to_its_end(tmp_path: Path) -> None:
    path = record(tmp_path / "a.mkv", keyframe_every=10)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    found = look(path, [Span(0.2, 0.8), Span(2.2, 2.8)])
    assert [still is None for still in found] == [False, True]


def test_a_recording_without_picture_is_refused_by_name(tmp_path: Path) -> None:
    sound_only = MediaInfo(container="mov", duration_s=3.0, origin_s=0.0, video=None, audio=())
    with open_source(record(tmp_path / "a.mp4")) as source, pytest.raises(NoPicture, match=r"a\.mp4"):
        contact_sheet(source, sound_only, [Scene.of(Span(0, 1))])


# --- thumbnails


@pytest.mark.parametrize("size", [(1200, 360), (1340, 900), (100, 40), (40, 2000)])
def test_a_thumbnail_is_small_and_has_the_shape_of_its_picture(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(1).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    for pixels in (noise, np.full_like(noise, 200)):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        small = thumbnail(buffer.getvalue())
        shown = Image.open(io.BytesIO(small))
        assert shown.format == "WEBP"
        assert max(shown.size) <= 480
        assert shown.width / shown.height == pytest.approx(size[0] / size[1], rel=0.15)
    assert len(small) <= 3000
