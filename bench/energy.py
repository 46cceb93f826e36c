"""The energy stage against librosa on the whole file: CPU for the same curve, memory, and how both grow."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import recordings
from bench.measure import Row, best_of, cost_of
from content_pipeline.media.ffmpeg import ffmpeg_exe

MINUTE_S, HOUR_S = 60, 3600
COMPARED_S = 10 * MINUTE_S
LENGTHS_S = (10 * MINUTE_S, HOUR_S, 12 * HOUR_S)
MOST_BYTES = 150e6


def rows(folder: Path) -> Iterator[Row]:
    recording = recordings.long_sound(folder, COMPARED_S)
    ours, theirs = (
        best_of(3, partial(_ours, recording), _load_ours),
        cost_of(partial(_librosa, recording), _load_librosa),
    )
    assert ours.value == theirs.value, "both must see the same number of frames"
    yield Row("energy of 10 min: CPU", ours.cpu_s, theirs.cpu_s, "s", 25, "librosa")
    yield Row("energy of 10 min: peak memory", ours.peak_bytes / 1e6, theirs.peak_bytes / 1e6, "MB", 10, "librosa")
    yield from _growth(folder)
    yield from _cores(folder, ours.wall_s)


def _growth(folder: Path) -> Iterator[Row]:
    """The longest last: its figures against those of the shortest."""
    costs = {}
    for length_s in LENGTHS_S:
        costs[length_s] = cost_of(partial(_ours, recordings.long_sound(folder, length_s)), _load_ours)
    shortest, longest = LENGTHS_S[0], LENGTHS_S[-1]
    peaks = [costs[length_s].peak_bytes / 1e6 for length_s in LENGTHS_S]
    note = "10 min, 1 h, 12 h: " + ", ".join(f"{peak:.0f} MB" for peak in peaks)
    yield Row("energy: memory at 12 h as at 10 min", peaks[-1], peaks[0], "MB", 0.8, "itself at 10 min", note=note)
    yield Row("energy: memory at 12 h", peaks[-1], MOST_BYTES / 1e6, "MB", 1)
    per_hour = {length_s: costs[length_s].cpu_s * HOUR_S / length_s for length_s in LENGTHS_S}
    note = "10 min, 1 h, 12 h: " + ", ".join(f"{cpu_s:.2f} s" for cpu_s in per_hour.values())
    yield Row(
        "energy: CPU per hour at 12 h as at 10 min",
        per_hour[longest],
        per_hour[shortest],
        "s",
        0.9,
        "itself at 10 min",
        note=note,
    )


def _cores(folder: Path, alone_s: float) -> Iterator[Row]:
    """Two recordings at once, and one recording on two cores; at best both take half the time."""
    recording = recordings.long_sound(folder, COMPARED_S)
    note = f"{os.cpu_count()} cores"
    yield Row("two recordings at once: time", _at_once_s(recording, 2), 2 * alone_s, "s", 1.7, "one by one", note=note)
    long = recordings.long_sound(folder, HOUR_S)
    alone, split = (cost_of(partial(_ours, long, processes), _load_ours).wall_s for processes in (1, 2))
    yield Row("one recording of 1 h on two cores: time", split, alone, "s", 1.7, "one core", note=note)


def _at_once_s(recording: Path, times: int) -> float:
    """The time between the first start and the last end, imports apart."""
    _load_ours()
    started, children = time.perf_counter(), []
    for _ in range(times):
        child = os.fork()
        if child == 0:
            _ours(recording)
            os._exit(0)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    assert not any(statuses)
    return time.perf_counter() - started


def _load_ours() -> None:
    import soxr  # noqa: F401

    import content_pipeline.media.audio.decode
    import content_pipeline.media.curves.measure
    import content_pipeline.media.curves.parallel_energy  # noqa: F401


def _ours(recording: Path, processes: int = 1) -> int:
    from content_pipeline.media.curves.measure import measure
    from content_pipeline.media.probe import probe
    from content_pipeline.media.source import open_source
    from content_pipeline.settings import EnergySettings

    with open_source(recording) as source:
        info = probe(source)
        measured = measure(source, info, EnergySettings(), (1.0, 5.0), processes=processes)
    return len(measured.tracks[measured.primary].percussive)


def _load_librosa() -> None:
    import librosa
    import numpy as np

    librosa.feature.rms(y=librosa.effects.hpss(np.zeros(22_050, np.float32))[1])


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
