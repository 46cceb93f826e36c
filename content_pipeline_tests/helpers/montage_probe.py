"""Measuring a montage against its recording: which picture and which sound really stand where.

Nothing here trusts the renderer: both files are decoded in full and compared by content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from content_pipeline.media.render.join import Cut, JoinedMontage

RATE_HZ = 16_000
_WIDTH, _HEIGHT = 64, 36


@dataclass(frozen=True, eq=False)
class Decoded:
    """A file's pictures, tiny and gray, with their times; its sound as one mono line from time zero."""

    times_s: NDArray[np.float64]
    pictures: NDArray[np.float32]
    sound: NDArray[np.float32]

    @property
    def frame_s(self) -> float:
        return float(np.median(np.diff(self.times_s)))


@dataclass(frozen=True)
class CutError:
    """How far a clip's first and last picture, and its sound, are from where the cut says; None: not to tell."""

    start_frames: float
    end_frames: float
    sound_ms: float | None


def decode(
    path: Path, *, track: int = 0, turns: int = 0, origin_s: float | None = None, until_s: float | None = None
) -> Decoded:
    """Decode all, or up to a time. `turns`: quarter turns (counter-clockwise) to put pictures upright."""
    with av.open(str(path)) as container:
        zero_s = (container.start_time or 0) / 1e6 if origin_s is None else origin_s
        times_s, pictures = _pictures(container, zero_s, turns, until_s)
    with av.open(str(path)) as container:
        sound = (
            _sound(container, zero_s, track, until_s)
            if len(container.streams.audio) > track
            else np.zeros(0, np.float32)
        )
    return Decoded(times_s, pictures, sound)


def _pictures(container: Any, zero_s: float, turns: int, until_s: float | None) -> Any:
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    found = []
    for frame in container.decode(stream):
        time_s = float(frame.pts * frame.time_base) - zero_s
        if until_s is not None and time_s > until_s:
            break
        gray = frame.reformat(_WIDTH, _HEIGHT, "gray", interpolation="AREA").to_ndarray().astype(np.float32)
        upright = np.rot90(gray, turns)
        if turns % 2:  # brought back to one shape, coarsely: enough to tell pictures apart
            image = av.VideoFrame.from_ndarray(np.ascontiguousarray(upright).astype(np.uint8), format="gray")
            upright = image.reformat(_WIDTH, _HEIGHT, "gray", interpolation="AREA").to_ndarray().astype(np.float32)
        found.append((time_s, upright))
    found.sort(key=lambda one: one[0])
    return np.array([time_s for time_s, _ in found]), np.stack([picture for _, picture in found])


def _sound(container: Any, zero_s: float, track: int, until_s: float | None) -> Any:
    stream = container.streams.audio[track]
    line = np.zeros(RATE_HZ, np.float32)
    resampler, expected_s, position = None, None, 0
    for frame in container.decode(stream):
        start_s = float(frame.pts * frame.time_base) - zero_s
        if until_s is not None and start_s > until_s:
            break
        if expected_s is None or abs(start_s - expected_s) > 0.01:
            resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE_HZ)
            expected_s, position = start_s, round(start_s * RATE_HZ)
        expected_s += frame.samples / frame.sample_rate
        for part in resampler.resample(frame):
            samples = part.to_ndarray().reshape(-1)
            if position + len(samples) > len(line):
                line = np.concatenate([line, np.zeros(max(len(line), len(samples)), np.float32)])
            first = max(0, -position)
            line[position + first : position + len(samples)] = samples[first:]
            position += len(samples)
    return line[: max(0, position)]


def measure(montage: JoinedMontage, recording: Decoded, made: Decoded | None = None) -> list[CutError]:
    """One `CutError` per cut, from the decoded montage."""
    shown = decode(montage.path, origin_s=0.0) if made is None else made
    return [_cut_error(cut, recording, shown) for cut in montage.cuts]


def _cut_error(cut: Cut, recording: Decoded, shown: Decoded) -> CutError:
    inside = np.flatnonzero((shown.times_s >= cut.start_s - 1e-4) & (shown.times_s < cut.end_s - 1e-4))
    first, last = inside[0], inside[-1]
    errors = []
    for index in (first, last):
        time_s = cut.source.start_s + shown.times_s[index] - cut.start_s
        errors.append(_picture_error_s(shown.pictures[index], time_s, recording) / recording.frame_s)
    # The last picture must also stand until the cut's end, not leave a hole before it.
    missing_s = cut.end_s - shown.times_s[last] - 1.5 * max(shown.frame_s, recording.frame_s)
    held = _held_s(recording, cut.source.end_s)
    return CutError(
        errors[0], max(errors[1], max(0.0, missing_s - held) / recording.frame_s), _sound_ms(cut, recording, shown)
    )


def _held_s(recording: Decoded, time_s: float) -> float:
    """How long the picture at a time has been standing, in a recording of variable rate."""
    before = recording.times_s[recording.times_s <= time_s]
    return float(time_s - before[-1]) if len(before) else 0.0


def _picture_error_s(picture: NDArray[np.float32], time_s: float, recording: Decoded) -> float:
    """Distance from the expected time to the time the recording really shows this picture."""
    near = np.flatnonzero(np.abs(recording.times_s - time_s) < max(1.0, 8 * recording.frame_s))
    distance = np.abs(recording.pictures[near] - picture).mean(axis=(1, 2))
    alike = near[distance <= distance.min() * 1.02 + 0.02]
    errors = []
    for index in alike:
        start_s = recording.times_s[index]
        end_s = recording.times_s[index + 1] if index + 1 < len(recording.times_s) else start_s + recording.frame_s
        errors.append(0.0 if start_s <= time_s < end_s else min(abs(time_s - start_s), abs(time_s - end_s)))
    return float(min(errors))


def _sound_ms(cut: Cut, recording: Decoded, shown: Decoded, reach_s: float = 0.25) -> float | None:
    """Delay of the montage's sound against its pictures, by cross-correlation; None where it is silent."""
    length_s = min(3.0, cut.end_s - cut.start_s - 0.4)
    if length_s < 0.3 or not len(shown.sound):
        return None
    at = round((cut.start_s + 0.2) * RATE_HZ)
    piece = shown.sound[at : at + round(length_s * RATE_HZ)]
    start = round((cut.source.start_s + 0.2 - reach_s) * RATE_HZ)
    window = recording.sound[max(0, start) : max(0, start) + len(piece) + round(2 * reach_s * RATE_HZ)]
    if len(piece) < 1000 or len(window) < len(piece) or np.abs(piece).max() < 1e-4:
        return None
    size = 1 << (len(window) + len(piece)).bit_length()
    product = np.fft.irfft(np.fft.rfft(window, size) * np.conj(np.fft.rfft(piece, size)), size)
    lags = product[: len(window) - len(piece) + 1]
    squares = np.concatenate([[0.0], np.cumsum(window.astype(np.float64) ** 2)])
    energy = np.sqrt(squares[len(piece) :] - squares[: len(squares) - len(piece)]) + 1e-6
    best = int(np.argmax(lags / energy[: len(lags)]))
    expected = round((cut.source.start_s + 0.2) * RATE_HZ) - max(0, start)
    return (expected - best) * 1000 / RATE_HZ


def worst(errors: Sequence[CutError]) -> CutError:
    sounds = [abs(error.sound_ms) for error in errors if error.sound_ms is not None]
    return CutError(
        max(error.start_frames for error in errors),
        max(error.end_frames for error in errors),
        max(sounds) if sounds else None,
    )
