"""Decoding: positions follow the clock, and damage becomes counted silence."""

from __future__ import annotations

from pathlib import Path

import librosa
import numpy as np
import pytest

from content_pipeline.media.audio import loudest_track as loudest
from content_pipeline.media.audio.loudest_track import loudest_track
from content_pipeline.media.audio.mono_blocks import AudioReport, mono_blocks
from content_pipeline.media.curves.model import SAMPLE_RATE_HZ
from content_pipeline_tests.helpers.samples import recording
from content_pipeline_tests.helpers.sounds import Piece, Samples, mark_dirty, opened, scene, write


def decoded(
    path: Path, track: int = 0, start_s: float = 0.0, end_s: float | None = None
) -> tuple[Samples, AudioReport]:
    with opened(path) as (source, info):
        blocks = mono_blocks(source, info, track, start_s, end_s)
        return np.concatenate([np.zeros(0, np.float32), *blocks]), blocks.report


def level(samples: Samples, start_s: float, end_s: float) -> float:
    part = samples[round(start_s * SAMPLE_RATE_HZ) : round(end_s * SAMPLE_RATE_HZ)]
    return float(np.abs(part).max())


@pytest.mark.parametrize("rate_hz", [22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_the_samples_are_those_that_librosa_loads(tmp_path: Path, rate_hz: int, channels: int) -> None:
    sound = scene(2.0, rate_hz, channels, [0.5])
    path = write(tmp_path / "sound.mov", [Piece(sound)], rate_hz=rate_hz)
    expected = librosa.resample(librosa.to_mono(sound), orig_sr=rate_hz, target_sr=SAMPLE_RATE_HZ)
    samples, report = decoded(path)
    assert len(samples) == len(expected)
    np.testing.assert_allclose(samples, expected, atol=1e-4)  # 16 bits
    assert report == AudioReport(0, 0.0, 2.0, 2.0, 0, 0.0)


@pytest.mark.parametrize(
    ("codec", "name", "tolerance"),
    [
        ("pcm_u8", "a.mkv", 0.01),
        ("pcm_s32le", "a.mkv", 1e-6),
        ("pcm_f32le", "a.mkv", 1e-6),
        ("pcm_f64le", "a.mkv", 1e-6),
        ("flac", "a.mkv", 1e-4),
    ],
)
def test_every_sample_format_has_its_full_scale_at_one(tmp_path: Path, codec: str, name: str, tolerance: float) -> None:
    sound = scene(1.0, SAMPLE_RATE_HZ, 2)
    samples, _ = decoded(write(tmp_path / name, [Piece(sound)], rate_hz=SAMPLE_RATE_HZ, codec=codec))
    np.testing.assert_allclose(samples, sound.mean(axis=0), atol=tolerance)


def test_values_that_are_no_numbers_become_silence(tmp_path: Path) -> None:
    sound = scene(1.0, SAMPLE_RATE_HZ)
    sound[0, 500:600] = np.nan
    sound[0, 700] = np.inf
    samples, _ = decoded(write(tmp_path / "a.mkv", [Piece(sound)], rate_hz=SAMPLE_RATE_HZ, codec="pcm_f32le"))
    assert np.isfinite(samples).all()
    assert not samples[500:600].any()


@pytest.mark.parametrize("name", ["gap.mkv", "gap.mov"])
def test_a_gap_becomes_silence_and_what_follows_keeps_its_time(tmp_path: Path, name: str) -> None:
    sound = scene(2.0, 44_100)
    path = write(tmp_path / name, [Piece(sound), Piece(sound, 3.5)], rate_hz=44_100, codec="aac")
    samples, report = decoded(path)
    assert level(samples, 2.1, 3.4) < 1e-3
    assert level(samples, 3.6, 5.4) > 0.1
    assert report.decoded_s == pytest.approx(5.5, abs=0.05)
    assert report.missing_s == 0  # nothing is damaged


def test_a_track_that_starts_late_starts_with_silence(tmp_path: Path) -> None:
    early, late = scene(4.0, 48_000), scene(2.0, 48_000, seed=1)
    path = write(tmp_path / "late.mkv", [Piece(early)], [Piece(late, 1.7)], rate_hz=48_000)
    samples, report = decoded(path, track=1)
    assert level(samples, 0, 1.69) < 1e-6
    assert level(samples, 1.7, 1.72) > 0.01
    assert report.start_s == pytest.approx(1.7)
    assert report.end_s == pytest.approx(3.7)


def test_an_overlap_is_dropped(tmp_path: Path) -> None:
    sound = scene(2.0, SAMPLE_RATE_HZ)
    pieces = [Piece(sound, 0.0, SAMPLE_RATE_HZ), Piece(scene(2.0, SAMPLE_RATE_HZ, seed=1), 1.5, SAMPLE_RATE_HZ)]
    samples, report = decoded(write(tmp_path / "overlap.mkv", pieces, rate_hz=SAMPLE_RATE_HZ))
    assert len(samples) == pytest.approx(3.5 * SAMPLE_RATE_HZ, abs=SAMPLE_RATE_HZ * 0.002)
    np.testing.assert_allclose(samples[: sound.shape[1]], sound[0], atol=1e-4)
    assert report.decoded_s == pytest.approx(3.5, abs=0.002)


def test_a_part_is_cut_from_the_whole_to_the_sample(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mkv", [Piece(scene(12.0, 48_000, 2, [4.5, 8.2]))], rate_hz=48_000, codec="aac")
    whole, _ = decoded(path)
    part, _ = decoded(path, start_s=4, end_s=9)
    run_up = SAMPLE_RATE_HZ // 4  # the resampler's
    expected = whole[4 * SAMPLE_RATE_HZ : 9 * SAMPLE_RATE_HZ]
    assert len(part) == len(expected)
    np.testing.assert_allclose(part[run_up:-run_up], expected[run_up:-run_up], atol=1e-5)


def test_bad_packets_are_counted_and_become_silence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", [Piece(scene(6.0, 44_100, 2))], rate_hz=44_100, codec="aac")
    whole, _ = decoded(path)
    mark_dirty(path, first=100, count=20)
    samples, report = decoded(path)
    assert len(samples) == len(whole)
    assert report.bad_packets >= 15
    assert report.missing_s == pytest.approx(20 * 1024 / 44_100, abs=0.12)
    np.testing.assert_allclose(samples[-SAMPLE_RATE_HZ:], whole[-SAMPLE_RATE_HZ:], atol=1e-5)


@pytest.mark.parametrize("channels", [(2, 1), (1, 2), (2, 6), (6, 1)])
def test_channels_that_change_on_the_way_lose_nothing(tmp_path: Path, channels: tuple[int, int]) -> None:
    parts = [
        recording(tmp_path, f"{number}.ts", seconds=4, channels=count, bursts=((1, 2),), start_s=4.0 * number)
        for number, count in enumerate(channels)
    ]
    (tmp_path / "both.ts").write_bytes(b"".join(part.read_bytes() for part in parts))
    sound, report = decoded(tmp_path / "both.ts")
    assert (report.bad_packets, report.decoded_s) == (0, pytest.approx(8.0, abs=0.1))
    level = [float(np.abs(second).mean()) for second in np.split(sound[: 7 * SAMPLE_RATE_HZ], 7)]
    assert min(level[1], level[5]) > 0.05 > max(level[0], level[3], level[4])


@pytest.mark.parametrize(
    ("levels", "loudest"), [((0.0, 1.0), 1), ((1.0, 0.2), 0), ((0.0, 0.0), 0), ((1.0, 1.0), 0), ((0.1, 0.0, 0.9), 2)]
)
def test_the_loudest_track_is_found_and_a_draw_goes_to_the_first(
    tmp_path: Path, levels: tuple[float, ...], loudest: int
) -> None:
    sound = scene(3.0, 44_100)
    path = write(tmp_path / "a.mkv", *([Piece(sound * np.float32(level))] for level in levels), rate_hz=44_100)
    with opened(path) as (source, info):
        assert loudest_track(source, info) == loudest


@pytest.mark.parametrize("levels", [(0.2, 1.0), (1.0, 0.2)])
def test_of_a_long_recording_samples_of_each_track_are_heard(
    tmp_path: Path, levels: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loudest, "_LISTEN_S", 0.05)
    monkeypatch.setattr(loudest, "_LISTEN_PACKETS", 10)
    sound = scene(9.0, 44_100)
    tracks = [[Piece(sound * np.float32(level))] for level in levels]
    with opened(write(tmp_path / "a.mp4", *tracks, rate_hz=44_100, codec="aac")) as (source, info):
        assert loudest_track(source, info) == levels.index(1.0)
