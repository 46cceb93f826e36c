"""The energy of a recording: the curves of its audio tracks, and whether its sound is all there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from content_pipeline.errors import BadSettings, CorruptMedia, NoAudio, counted, printable
from content_pipeline.media.audio.loudest_track import loudest_track
from content_pipeline.media.audio.mono_blocks import AudioReport
from content_pipeline.media.curves.model import Curves
from content_pipeline.media.curves.track_task import TrackTask
from content_pipeline.media.damage import packets, until_damage
from content_pipeline.media.probe import MediaInfo, probe
from content_pipeline.media.source import Source, open_source
from content_pipeline.settings import EnergySettings, Settings
from content_pipeline.settings.model import Engine

Progress = Callable[[float], None]

_PROGRESS_STEP = 0.01
_REPORT_EVERY_S = 1.0


@dataclass(frozen=True)
class Energy:
    """Curves and report of each measured track; `primary` is the track that detection reads."""

    tracks: dict[int, Curves]
    primary: int
    reports: dict[int, AudioReport]


def measure(
    source: Source,
    info: MediaInfo,
    settings: EnergySettings,
    hpss_margin: tuple[float, float],
    progress: Progress | None = None,
    processes: int = 1,
) -> Energy:
    """Measure the chosen tracks in one pass each, in constant memory.

    With `processes`, long tracks are split in time over that many forked processes. A recording whose sound is
    cut short or too damaged is corrupt: a short result never passes for a whole one.
    """
    primary, chosen = _choose(source, info, settings)
    tracks: dict[int, Curves] = {}
    reports: dict[int, AudioReport] = {}
    for done, track in enumerate(chosen):
        share = _Throttled(progress, done / len(chosen), 1 / len(chosen))
        task = TrackTask(source, info, track, hpss_margin, share)
        tracks[track], reports[track] = _measure_track(task, settings.engine, processes)
        check_complete(source, info, reports[track], settings.max_missing_share)
    return Energy(tracks, primary, reports)


def primary_curves(path: Path, settings: Settings) -> Curves:
    """The curves that detection reads of a recording, exactly as the energy stage measures them."""
    with open_source(path, path.parent, settings.limits) as source:
        energy = measure(source, probe(source), settings.energy, settings.detection.hpss_margin)
    return energy.tracks[energy.primary]


def _choose(source: Source, info: MediaInfo, settings: EnergySettings) -> tuple[int, list[int]]:
    """The track detection reads, and all that are measured."""
    if not info.audio:
        raise NoAudio(f"{printable(source.path)} has no audio track")
    count = len(info.audio)
    if isinstance(settings.track, int):
        if settings.track >= count:
            tracks = counted(count, "audio track")
            raise BadSettings(
                f"energy.track is {settings.track}, which means track {settings.track + 1}, "
                f"but {printable(source.path)} has {tracks}"
            )
        return settings.track, [settings.track]
    loudest = loudest_track(source, info)
    return loudest, list(range(count)) if settings.track == "all" else [loudest]


def _measure_track(task: TrackTask, engine: Engine, processes: int) -> tuple[Curves, AudioReport]:
    from content_pipeline.media.curves import parallel_energy

    if engine == "librosa":
        return _measure_by_librosa(task)
    whole = parallel_energy.measure_in_parts(task, processes) if processes > 1 else None
    return parallel_energy.measure_whole(task) if whole is None else whole


def _measure_by_librosa(task: TrackTask) -> tuple[Curves, AudioReport]:
    """All samples at once, as librosa wants them."""
    import numpy as np

    from content_pipeline.media.audio.mono_blocks import MonoBlocks
    from content_pipeline.media.curves.librosa_engine import librosa_curves

    blocks = MonoBlocks(task.source, task.info, task.track)
    pieces = list(blocks)
    samples = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
    curves = librosa_curves(samples, task.hpss_margin)
    task.progress(1.0)
    return curves, blocks.report


class _Throttled:
    """Passes on the progress of one track as progress of all, in steps of a percent or a second."""

    def __init__(self, report: Progress | None, done: float, share: float) -> None:
        self._report = report
        self._done = done
        self._share = share
        self._last = done
        self._reported_s = time.monotonic()

    def __call__(self, fraction: float) -> None:
        overall = self._done + self._share * min(1.0, fraction)
        if self._report is None or overall <= self._last:
            return
        is_late = time.monotonic() - self._reported_s >= _REPORT_EVERY_S
        if overall - self._last >= _PROGRESS_STEP or overall >= 1 or is_late:
            self._last, self._reported_s = overall, time.monotonic()
            self._report(overall)


def check_complete(source: Source, info: MediaInfo, report: AudioReport, max_missing_share: float) -> None:
    """Refuse a track that ends before its declared end, or of which too much could not be decoded."""
    name = f"{printable(source.path)}: audio track {report.track + 1} of {len(info.audio)}"
    declared_s = _declared_s(info, report)
    if declared_s - report.decoded_s > _tolerance_s(declared_s):
        # Without a length of its own the track may rightly end before the picture does.
        is_own_length = report.declared_s is not None
        if is_own_length or report.bad_packets or not reaches_end(source, info):
            raise CorruptMedia(f"{name} ends after {report.decoded_s:.1f} s of {declared_s:.1f} s")
    missing_share = report.missing_s / max(declared_s, report.decoded_s, 1e-9)
    if missing_share > max_missing_share or (report.bad_packets and not report.decoded_s):
        raise CorruptMedia(
            f"{name} has {report.bad_packets} unreadable packets; {missing_share:.1%} of its sound is missing"
        )


def _declared_s(info: MediaInfo, report: AudioReport) -> float:
    """How long the track says it is, or else the recording; an edit list may cut a track to the recording."""
    in_recording_s = max(0.0, info.duration_s - report.start_s)
    if report.declared_s is None:
        return in_recording_s
    return min(report.declared_s, in_recording_s) if info.duration_s > 0 else report.declared_s


def _tolerance_s(declared_s: float) -> float:
    """Containers round, and encoders pad: less than this short is whole."""
    return min(1.0, 0.1 + 0.05 * declared_s)


def reaches_end(source: Source, info: MediaInfo) -> bool:
    """Whether any stream has data near the declared end: what a truncated file cannot have."""
    import av

    end_s = info.origin_s + info.duration_s
    last_s = info.origin_s
    with source.container() as container, until_damage():
        container.seek(round(end_s * av.time_base))
        for packet in packets(container):
            if packet.pts is not None:
                last_s = max(last_s, float((packet.pts + (packet.duration or 0)) * packet.time_base))
    return end_s - last_s <= _tolerance_s(info.duration_s)
