"""The energy stage against librosa on the whole file: CPU for the same curve, and peak memory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, cost_of
from content_pipeline.media.ffmpeg import ffmpeg_exe

MINUTES = 4


def rows(folder: Path) -> Iterator[Row]:
    recording = folder / "sound.mp4"
    _make(recording, MINUTES * 60)
    ours, theirs = cost_of(lambda: _ours(recording)), cost_of(lambda: _librosa(recording))
    assert ours.value == theirs.value, "both must see the same number of frames"
    yield Row(f"energy of {MINUTES} min, CPU", ours.cpu_s, theirs.cpu_s, "s", 25)
    yield Row(f"energy of {MINUTES} min, peak memory", ours.peak_bytes / 1e6, theirs.peak_bytes / 1e6, "MB", 5)


def _make(target: Path, seconds: int) -> None:
    sound = "aevalsrc='(random(0)*2-1)*(0.02+0.5*lt(mod(t,7),0.4))+0.1*sin(440*t*6.28)':s=44100"
    picture = "color=s=160x90:r=10"
    command = [ffmpeg_exe(), "-v", "error", "-y", "-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound]
    subprocess.run([*command, "-t", str(seconds), "-c:a", "aac", "-ac", "2", str(target)], check=True)


def _ours(recording: Path) -> int:
    from content_pipeline.media.energy import measure
    from content_pipeline.media.probe import probe
    from content_pipeline.media.source import open_source
    from content_pipeline.settings import EnergySettings, LimitSettings

    with open_source(recording) as source:
        info = probe(source, LimitSettings())
        measured = measure(source, info, EnergySettings(), (1.0, 5.0))
    return len(measured.tracks[measured.primary].percussive)


def _librosa(recording: Path) -> int:
    """By the book: the whole file in memory, separated, and its RMS taken."""
    import librosa
    import numpy as np

    raw = subprocess.run(
        [ffmpeg_exe(), "-v", "error", "-i", str(recording), "-ac", "1", "-ar", "22050", "-f", "f32le", "-"],
        capture_output=True,
        check=True,
    ).stdout
    percussive = librosa.effects.hpss(np.frombuffer(raw, np.float32), margin=(1.0, 5.0))[1]
    return int(librosa.feature.rms(y=percussive, frame_length=2048, hop_length=512).shape[1])
