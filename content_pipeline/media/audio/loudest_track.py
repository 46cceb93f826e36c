"""Which of several audio tracks is the loudest: found by ear, in all of a short recording, in samples of a long one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.probe import MediaInfo
from content_pipeline.media.source import Source

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer

    Opened = tuple[Sequence[int], InputContainer, list[AudioStream], tuple[float, float]]

_LISTEN_WINDOWS = 60
_LISTEN_S = 5.0
_LISTEN_PACKETS = 500  # enough of AAC at any rate


def loudest_track(source: Source, info: MediaInfo) -> int:
    """The track with the most power; the first where there is no difference, or no sound at all."""
    tracks = range(len(info.audio))
    if len(tracks) < 2:
        return 0
    windows = _listening_windows(info.duration_s)
    power = _mean_power(source, info, windows)
    if not any(power) and len(windows) > 1:
        power = _mean_power(source, info, [(0.0, float("inf"))])  # what sounds may lie between the samples
    return max(tracks, key=lambda track: power[track])


def _listening_windows(duration_s: float) -> list[tuple[float, float]]:
    if duration_s <= 2 * _LISTEN_WINDOWS * _LISTEN_S:
        return [(0.0, float("inf"))]
    step_s = duration_s / _LISTEN_WINDOWS
    return [(index * step_s, index * step_s + _LISTEN_S) for index in range(_LISTEN_WINDOWS)]


def _mean_power(source: Source, info: MediaInfo, windows: list[tuple[float, float]]) -> list[float]:
    """Mean square of every track over the windows."""
    from content_pipeline.media.audio.decode import frames_between, to_mono

    energy = np.zeros(len(info.audio))
    samples = np.zeros(len(info.audio))
    for tracks, container, streams, (start_s, end_s) in _listening(source, info, windows):
        places = {stream.index: track for track, stream in zip(tracks, streams, strict=True)}
        first_s, last_s = info.origin_s + start_s, info.origin_s + end_s
        for stream_index, frame in frames_between(container, streams, first_s, last_s):
            place = places[stream_index]
            mono = to_mono(frame)
            energy[place] += float(np.einsum("i,i->", mono, mono))
            samples[place] += len(mono)
    return [float(value) for value in energy / np.maximum(samples, 1)]


def _listening(source: Source, info: MediaInfo, windows: list[tuple[float, float]]) -> Iterator[Opened]:
    """Tracks, opened at each window: all in one pass, or one by one where a long recording can be opened in parts."""
    from content_pipeline.media.audio.decode import audio_only
    from content_pipeline.media.mp4.excerpt import AudioExcerpts

    tracks = range(len(info.audio))
    excerpts = [AudioExcerpts.of(source, info, track) for track in tracks] if len(windows) > 1 else []
    plain = [excerpt for excerpt in excerpts if excerpt is not None]
    if len(plain) < len(tracks):
        with audio_only(source, *tracks) as (container, streams):
            for window in windows:
                yield tracks, container, streams, window
        return
    for track, (start_s, end_s) in product(tracks, windows):
        for head in islice(plain[track].heads(info.origin_s + start_s, _LISTEN_PACKETS), 1):
            with source.container(head) as container:
                yield [track], container, list(container.streams.audio), (start_s, end_s)
