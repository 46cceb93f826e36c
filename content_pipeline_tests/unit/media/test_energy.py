"""The curves against librosa's whole-file result, and the verdicts on recordings whose sound is not all there."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import librosa
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from content_pipeline.errors import BadSettings, CorruptMedia, NoAudio
from content_pipeline.media.curves import parallel_energy
from content_pipeline.media.curves.librosa_engine import TOLERANCE, compare_engines, librosa_curves
from content_pipeline.media.curves.measure import Energy, measure
from content_pipeline.media.curves.medians import GROUP
from content_pipeline.media.curves.model import FRAME_RATE_HZ, FRAME_SAMPLES, HOP_SAMPLES, SAMPLE_RATE_HZ, Curves
from content_pipeline.media.curves.separation import CurveStream
from content_pipeline.media.curves.track_task import TrackTask
from content_pipeline.media.probe import probe
from content_pipeline.media.source import open_source
from content_pipeline.settings import EnergySettings, Settings
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.footage import FOOTAGE
from content_pipeline_tests.helpers.sounds import Piece, Samples, bangs, mark_dirty, opened, repeat, scene, write

MARGIN = (1.0, 5.0)
CURVES = ("percussive", "rms", "broadband", "punch")


def measured(path: Path, settings: EnergySettings | None = None, processes: int = 1) -> Energy:
    with opened(path) as (source, info):
        return measure(source, info, settings or EnergySettings(), MARGIN, processes=processes)


def primary(energy: Energy) -> Curves:
    return energy.tracks[energy.primary]


def streamed(samples: Samples, block: int = 65_536, groups: int = 8, margin: float = MARGIN[1]) -> Curves:
    stream = CurveStream(margin, groups)
    for start in range(0, len(samples), block):
        stream.push(samples[start : start + block])
    return stream.finish()


def librosa_percussive(samples: Samples, margin: tuple[float, float] = MARGIN) -> NDArray[np.float32]:
    return librosa_rms(librosa.effects.hpss(samples, margin=margin)[1])


def librosa_rms(samples: Samples) -> NDArray[np.float32]:
    curve: NDArray[np.float32] = librosa.feature.rms(y=samples, frame_length=FRAME_SAMPLES, hop_length=HOP_SAMPLES)[0]
    return curve


def segments(curve: NDArray[np.float32], threshold: float) -> list[tuple[int, int]]:
    is_above = np.concatenate([[False], curve > threshold, [False]])
    edges = np.flatnonzero(is_above[1:] != is_above[:-1])
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate_hz", [22_050, 44_100, 48_000, 96_000])
def test_the_curves_are_librosas_at_every_rate(tmp_path: Path, rate_hz: int, channels: int) -> None:
    sound = scene(8.123, rate_hz, channels, bangs(8.0))
    curves = primary(measured(write(tmp_path / "a.mov", [Piece(sound)], rate_hz=rate_hz)))
    loaded = librosa.resample(librosa.to_mono(sound), orig_sr=rate_hz, target_sr=SAMPLE_RATE_HZ)
    percussive = librosa_percussive(loaded)
    assert len(curves.percussive) == len(curves.rms) == len(curves.broadband) == len(percussive)
    np.testing.assert_allclose(curves.percussive, percussive, atol=1e-4)
    np.testing.assert_allclose(curves.rms, librosa_rms(loaded), atol=1e-4)
    for threshold in (0.02, 0.05, 0.1, 0.15):
        assert segments(curves.percussive, threshold) == segments(percussive, threshold)


@pytest.mark.parametrize("samples", [5 * 512, 16 * 512 - 1, 16 * 512, 17 * 512 + 3, 143 * 512, 65_536, 100_001])
@pytest.mark.parametrize("margin", [(1.0, 1.0), (1.0, 5.0), (3.0, 2.0)])
def test_the_edges_are_librosas_for_any_length_and_margin(samples: int, margin: tuple[float, float]) -> None:
    sound = scene(5.0, SAMPLE_RATE_HZ, 1, bangs(5.0, 0.3))[0, :samples]
    curves = streamed(sound, margin=margin[1])
    np.testing.assert_allclose(curves.percussive, librosa_percussive(sound, margin), atol=1e-4)
    np.testing.assert_allclose(curves.rms, librosa_rms(sound), atol=1e-6)


@pytest.mark.parametrize("gain", [1e-3, 1.0, 30.0])
def test_recording_levels_from_very_quiet_to_far_beyond_full_scale_keep_parity(gain: float) -> None:
    sound = scene(5.0, SAMPLE_RATE_HZ, 1, bangs(5.0))[0] * np.float32(gain)
    np.testing.assert_allclose(streamed(sound).percussive, librosa_percussive(sound), atol=2e-4 * gain)


@pytest.mark.parametrize(("block", "groups"), [(1_000, 8), (512, 2), (44_100, 3), (200_000, 12)])
def test_the_size_of_blocks_changes_nothing(block: int, groups: int) -> None:
    sound = scene(9.7, SAMPLE_RATE_HZ, 1, bangs(9.0))[0]
    for name in CURVES:
        expected = getattr(streamed(sound), name)
        np.testing.assert_allclose(getattr(streamed(sound, block, groups), name), expected, rtol=1e-6)


def test_sound_between_long_silences_is_measured_as_if_nothing_were_skipped() -> None:
    sound = np.zeros(40 * SAMPLE_RATE_HZ, np.float32)
    sound[17 * SAMPLE_RATE_HZ : 18 * SAMPLE_RATE_HZ] = scene(1.0, SAMPLE_RATE_HZ, 1, [0.2])[0]
    curves = streamed(sound)
    np.testing.assert_allclose(curves.percussive, librosa_percussive(sound), atol=1e-4)
    np.testing.assert_allclose(curves.rms, librosa_rms(sound), atol=1e-6)
    assert not curves.broadband[: int(16 * FRAME_RATE_HZ)].any()
    assert not curves.broadband[int(19 * FRAME_RATE_HZ) :].any()


def test_broadband_hears_noise_at_its_rms_and_is_deaf_to_a_tone() -> None:
    noise = 0.1 * np.random.default_rng(0).standard_normal(10 * SAMPLE_RATE_HZ).astype(np.float32)
    tone = (0.1 * np.sin(2 * np.pi * 440 * np.arange(10 * SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ)).astype(np.float32)
    assert streamed(noise).broadband[5:-5].mean() == pytest.approx(0.1, rel=0.02)
    assert streamed(tone).broadband[5:-5].max() < 0.001


def in_bands(*bands_hz: tuple[int, int], level: float = 0.1) -> Samples:
    """Noise that sounds in some bands only, in each as loud as the others."""
    hz, sound = np.fft.rfftfreq(10 * SAMPLE_RATE_HZ, 1 / SAMPLE_RATE_HZ), np.zeros(10 * SAMPLE_RATE_HZ)
    for number, (low_hz, high_hz) in enumerate(bands_hz):
        noise = np.fft.rfft(np.random.default_rng(number).standard_normal(len(sound)))
        part = np.fft.irfft(np.where((hz >= low_hz) & (hz < high_hz), noise, 0), len(sound))
        sound += level * part / part.std()
    return sound.astype(np.float32)


def test_punch_is_boom_and_crack_at_once() -> None:
    boom, crack, hiss = (20, 200), (950, 1_800), (5_000, 10_000)

    def share_db(*bands_hz: tuple[int, int]) -> float:
        curves = streamed(in_bands(*bands_hz))
        return float(20 * np.log10(curves.punch[5:-5].mean() / curves.rms[5:-5].mean()))

    blow = share_db(boom, crack)
    assert blow > -6
    assert blow == pytest.approx(share_db(boom, crack, hiss), abs=0.5)  # what lies above says nothing
    assert max(share_db(boom), share_db(crack), share_db(hiss, crack), share_db((250, 850))) < blow - 6


def test_punch_is_what_its_definition_says() -> None:
    sound = scene(3.0, SAMPLE_RATE_HZ, 1, bangs(3.0))[0]
    power = np.abs(librosa.stft(sound, n_fft=FRAME_SAMPLES, hop_length=HOP_SAMPLES, pad_mode="constant")) ** 2
    noise = np.minimum(power, median_filter(power, size=(31, 1), mode="reflect"))
    boom, crack, body = noise[:20].sum(axis=0), noise[84:169].sum(axis=0), power[:426].sum(axis=0)
    scale = 2 / (FRAME_SAMPLES * np.square(librosa.filters.get_window("hann", FRAME_SAMPLES)).sum() * 0.528)
    expected = np.sqrt(scale * power.sum(axis=0) * np.sqrt(boom * crack) / body)

    np.testing.assert_allclose(streamed(sound).punch, expected, rtol=5e-3)


@pytest.mark.parametrize("samples", [0, 1, 511, 1_764, 2_048])
def test_very_short_sound_has_one_value_per_hop(samples: int) -> None:
    curves = streamed(scene(0.1, SAMPLE_RATE_HZ)[0, :samples])
    for name in CURVES:
        curve = getattr(curves, name)
        assert len(curve) == 1 + samples // HOP_SAMPLES
        assert np.isfinite(curve).all()


def test_a_recording_of_any_length_has_one_value_per_hop() -> None:
    sound = scene(4.0, SAMPLE_RATE_HZ)[0]
    for hops in range(40, 40 + 2 * GROUP * 2):
        curves = streamed(sound[: hops * HOP_SAMPLES], groups=2)
        assert [len(getattr(curves, name)) for name in CURVES] == [hops + 1] * len(CURVES)


@pytest.mark.parametrize(("name", "codec"), [("a.mov", "pcm_s16le"), ("a.mkv", "aac"), ("a.mkv", "pcm_s16le")])
def test_split_over_processes_the_curves_are_the_same(
    tmp_path: Path, name: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_energy, "SHORTEST_PART_S", 8.0)
    path = write(tmp_path / name, [Piece(scene(31.0, 48_000, 1, bangs(30.0)))], rate_hz=48_000, codec=codec)
    whole, split = measured(path), measured(path, processes=3)
    assert whole.reports == split.reports
    for curve in CURVES:
        np.testing.assert_allclose(getattr(primary(split), curve), getattr(primary(whole), curve), atol=1e-5, rtol=1e-3)


def test_a_damaged_recording_gives_the_same_curves_whether_split_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_energy, "SHORTEST_PART_S", 8.0)
    path = write(tmp_path / "a.mp4", [Piece(scene(31.0, 44_100))], rate_hz=44_100, codec="aac")
    mark_dirty(path, first=900, count=10)
    whole, split = measured(path), measured(path, processes=2)
    assert whole.reports == split.reports
    assert whole.reports[0].bad_packets > 0
    np.testing.assert_array_equal(primary(whole).rms, primary(split).rms)


@pytest.mark.parametrize("overlap", [100, -333, -600, -1_035, -3_000])
def test_recordings_that_were_joined_are_split_over_processes_with_the_same_result(
    tmp_path: Path, overlap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_energy, "SHORTEST_PART_S", 8.0)
    piece = write(tmp_path / "piece.mp4", [Piece(scene(5.0, 44_100, 1, bangs(5.0)))], rate_hz=44_100, codec="aac")
    path = repeat(piece, tmp_path / "joined.mp4", 7, overlap)
    with opened(path) as (source, info):
        task = TrackTask(source, info, 0, MARGIN, lambda fraction: None)
        whole, split = parallel_energy.measure_whole(task), parallel_energy.measure_in_parts(task, 3)
    assert split is not None
    assert split[1] == whole[1]
    for curve in CURVES:
        np.testing.assert_allclose(getattr(split[0], curve), getattr(whole[0], curve), atol=1e-5, rtol=1e-3)


def test_what_cannot_be_split_is_given_up_before_the_rest_of_the_work_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_energy, "SHORTEST_PART_S", 8.0)
    path = write(tmp_path / "a.mp4", [Piece(scene(60.0, 44_100))], rate_hz=44_100, codec="aac")
    mark_dirty(path, first=20, count=5)
    seen: list[float] = []
    with opened(path) as (source, info):
        task = TrackTask(source, info, 0, MARGIN, seen.append)
        assert parallel_energy.measure_in_parts(task, 2) is None
    assert max(seen, default=0.0) < 0.3


def test_helpers_are_gone_when_measuring_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_energy, "SHORTEST_PART_S", 8.0)
    measured(write(tmp_path / "a.mov", [Piece(scene(20.0, 22_050))], rate_hz=22_050), processes=2)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_progress_rises_in_steps_of_a_percent_to_the_end(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mkv", [Piece(scene(30.0, 22_050))], [Piece(scene(30.0, 22_050))], rate_hz=22_050)
    seen: list[float] = []
    with opened(path) as (source, info):
        measure(source, info, EnergySettings(track="all"), MARGIN, progress=seen.append)
    assert seen == sorted(seen)
    assert all(later - earlier >= 0.009 for earlier, later in pairwise(seen[:-1]))
    assert seen[-1] == pytest.approx(1.0, abs=0.01)


def test_all_tracks_are_measured_on_request_and_the_loudest_is_primary(tmp_path: Path) -> None:
    quiet = scene(3.0, 22_050) * np.float32(0.1)
    path = write(tmp_path / "a.mkv", [Piece(quiet)], [Piece(scene(3.0, 22_050))], rate_hz=22_050)
    assert set(measured(path, EnergySettings(track="all")).tracks) == {0, 1}
    assert measured(path, EnergySettings(track="all")).primary == 1
    assert set(measured(path).tracks) == {1}
    assert measured(path, EnergySettings(track=0)).primary == 0
    with pytest.raises(BadSettings, match="track is 2"):
        measured(path, EnergySettings(track=2))


@pytest.mark.parametrize("kept_share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_a_truncated_recording_is_corrupt(tmp_path: Path, name: str, kept_share: float) -> None:
    options = {"movflags": "+faststart"} if name.endswith("mp4") else {}
    path = write(tmp_path / name, [Piece(scene(20.0, 44_100, 2))], rate_hz=44_100, codec="aac", **options)
    measured(path)
    os.truncate(path, int(path.stat().st_size * kept_share))
    with pytest.raises(CorruptMedia, match="ends after"):
        measured(path)


def test_a_track_that_ends_before_another_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mkv", [Piece(scene(20.0, 22_050))], [Piece(scene(5.0, 22_050))], rate_hz=22_050)
    energy = measured(path, EnergySettings(track=1))
    assert energy.reports[1].decoded_s == pytest.approx(5.0, abs=0.01)


def test_too_much_damage_is_corrupt_and_a_little_is_only_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", [Piece(scene(20.0, 44_100))], rate_hz=44_100, codec="aac")
    mark_dirty(path, first=100, count=8)
    report = measured(path).reports[0]
    assert report.bad_packets > 0
    assert 0 < report.missing_s < 0.05 * 20
    mark_dirty(path, first=200, count=100)
    with pytest.raises(CorruptMedia, match="unreadable packets"):
        measured(path)
    measured(path, EnergySettings(max_missing_share=0.5))


MEASURE_AND_PRINT_PEAK = """
import sys
from itertools import pairwise
from pathlib import Path
from content_pipeline.media.curves.librosa_engine import TOLERANCE, compare_engines, librosa_curves
from content_pipeline.media.curves.measure import measure
from content_pipeline.media.probe import describe
from content_pipeline.media.source import open_source
from content_pipeline.settings import EnergySettings, Settings
with open_source(Path(sys.argv[1])) as source:
    with source.container() as container:
        info = describe(container)
    energy = measure(source, info, EnergySettings(), (1.0, 5.0))
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(len(energy.tracks[0].rms), peak.split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_three_hours_take_little_more_memory_than_ten_minutes(tmp_path: Path) -> None:
    minute = np.zeros((1, 60 * 16_000), np.float32)
    minute[:, : 5 * 16_000] = scene(5.0, 16_000, 1, [1.0, 3.0])
    piece = write(tmp_path / "minute.mp4", [Piece(minute)], rate_hz=16_000, codec="aac")
    peaks_kib = []
    for minutes in (10, 180):
        path = repeat(piece, tmp_path / f"{minutes}.mp4", minutes)
        output = subprocess.run(
            [sys.executable, "-c", MEASURE_AND_PRINT_PEAK, str(path)], check=True, capture_output=True, text=True
        ).stdout
        frames, peak_kib = map(int, output.split())
        assert frames / FRAME_RATE_HZ == pytest.approx(minutes * 60, rel=0.01)
        peaks_kib.append(peak_kib)
    assert peaks_kib[1] <= 150 * 1024
    assert peaks_kib[1] - peaks_kib[0] <= 25 * 1024


needs_footage = pytest.mark.skipif(not FOOTAGE.is_dir(), reason="the gameplay recordings are not here")


def footage_energy(name: str) -> Energy:
    with open_source(FOOTAGE / "awkward" / name) as source:
        return measure(source, probe(source), EnergySettings(), MARGIN)


@needs_footage
@pytest.mark.parametrize(
    ("name", "duration_s"),
    [
        *((f"container.{kind}", 40) for kind in ("avi", "mkv", "webm", "ts")),
        *((name, 40) for name in ("vfr.mp4", "frag.mp4", "moov_end.mp4", "long_gop.mp4", "open_gop_bframes.mkv")),
        *((name, 40) for name in ("start_pts_1h.mkv", "mono_22k.mp4", "surround51_48k.mp4", "clipped_loud.mp4")),
        ("offset_audio.mp4", 41.7),
        ("odd_size_yuv444.mp4", 15),
    ],
)
def test_awkward_recordings_are_heard_whole(name: str, duration_s: float) -> None:
    curves = primary(footage_energy(name))
    assert len(curves.rms) / FRAME_RATE_HZ == pytest.approx(duration_s, abs=0.15)
    assert curves.percussive.max() > 0.04


@needs_footage
def test_sound_that_starts_late_lines_up_with_the_picture() -> None:
    plain, late = primary(footage_energy("moov_end.mp4")).rms, primary(footage_energy("offset_audio.mp4")).rms
    shift = round(1.7 * FRAME_RATE_HZ)
    scores = [float(np.corrcoef(plain[:1500], late[shift + by : shift + by + 1500])[0, 1]) for by in range(-3, 4)]
    assert scores[3] > 0.95
    assert not late[: shift - 4].any()


@needs_footage
def test_of_two_tracks_the_one_with_the_game_is_read() -> None:
    assert footage_energy("two_audio.mp4").primary == 1


@needs_footage
@pytest.mark.parametrize("name", ["silent_audio.mp4", "one_frame.mp4"])
def test_recordings_without_an_event_still_have_curves(name: str) -> None:
    assert primary(footage_energy(name)).percussive.max() < 0.001


@needs_footage
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("truncated_50.mp4", CorruptMedia, "ends after 18.8 s of 40.0 s"),
        ("bitrot.mp4", CorruptMedia, "unreadable packets"),
        ("no_audio.mp4", NoAudio, "no audio track"),
    ],
)
def test_damaged_and_mute_recordings_are_refused(name: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        footage_energy(name)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 7.0])
def test_the_engine_of_librosa_gives_the_same_curves(seconds: float) -> None:
    sound = scene(seconds, SAMPLE_RATE_HZ, 1, bangs(seconds))[0] if seconds else np.zeros(0, np.float32)
    ours, theirs = streamed(sound), librosa_curves(sound, MARGIN)
    for name in CURVES:
        curve = getattr(theirs, name)
        assert len(curve) == len(getattr(ours, name))
        np.testing.assert_allclose(getattr(ours, name), curve, atol=TOLERANCE * max(float(curve.max()), 1e-9))


def test_a_recording_is_measured_alike_by_both_engines(samples_folder: Path) -> None:
    compared = compare_engines(samples.recording(samples_folder, "plain.mp4"), Settings())
    assert compared.agree, compared.differences
    assert set(compared.differences) == set(CURVES)
