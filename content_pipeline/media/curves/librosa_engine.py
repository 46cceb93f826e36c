"""The curves by librosa, the library that everybody knows: slow, and in memory that grows with the recording.

It gives the same curves as `separation.py`, which measures block by block; tests and `content-ai doctor --verify` hold
the two to each other. Choose it with `energy.engine = "librosa"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from content_pipeline.media.curves.model import CURVE_NAMES, FRAME_SAMPLES, HOP_SAMPLES, Curves
from content_pipeline.media.curves.separation import BODY, BOOM, CRACK, LOUDEST_SAMPLE, NOISE_SHARE, SILENT_LEVEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from content_pipeline.settings import Settings

    Floats = NDArray[np.float32]

MEDIAN_WIDTH = 31
# Both engines agree to this part of the loudest value: ours takes medians of codes with nine bits of mantissa.
TOLERANCE = 2e-3


def librosa_curves(samples: Floats, hpss_margin: tuple[float, float]) -> Curves:
    """The curves of a whole track of mono samples at 22,050 Hz."""
    import librosa

    if not len(samples):
        return Curves(*(np.zeros(1, np.float32) for _ in CURVE_NAMES))
    samples = np.clip(samples, -LOUDEST_SAMPLE, LOUDEST_SAMPLE)
    spectrum = librosa.stft(samples, n_fft=FRAME_SAMPLES, hop_length=HOP_SAMPLES, pad_mode="constant")
    percussive = _percussive(spectrum, hpss_margin)
    sound = librosa.istft(percussive, hop_length=HOP_SAMPLES, n_fft=FRAME_SAMPLES, length=len(samples))
    broadband, punch = _noise_levels(np.abs(spectrum) ** 2)
    return Curves(percussive=_rms(sound), rms=_rms(samples), broadband=broadband, punch=punch)


def _percussive(spectrum: NDArray[np.complex64], hpss_margin: tuple[float, float]) -> NDArray[np.complex64]:
    """The percussive part. A few frames are mirrored first: scipy's median goes wrong where its window is wider."""
    import librosa

    frames = spectrum.shape[1]
    mirrored = MEDIAN_WIDTH if frames < MEDIAN_WIDTH else 0
    padded = np.pad(spectrum, ((0, 0), (mirrored, mirrored)), mode="symmetric")
    part: NDArray[np.complex64] = librosa.decompose.hpss(padded, margin=hpss_margin)[1]
    return part[:, mirrored : mirrored + frames]


def _rms(samples: Floats) -> Floats:
    import librosa

    rms: Floats = librosa.feature.rms(y=samples, frame_length=FRAME_SAMPLES, hop_length=HOP_SAMPLES)[0]
    return rms


def _noise_levels(power: Floats) -> tuple[Floats, Floats]:
    """Broadband level and punch, by their definitions: what of each bin is not above the median of its neighbours."""
    import librosa
    from scipy.ndimage import median_filter

    noise = np.minimum(power, median_filter(power, size=(MEDIAN_WIDTH, 1), mode="reflect"))
    window = librosa.filters.get_window("hann", FRAME_SAMPLES)
    scale = 2 / (FRAME_SAMPLES * float(np.square(window).sum()) * NOISE_SHARE)
    whole, body = power.sum(axis=0), power[BODY].sum(axis=0)
    blow = np.sqrt(noise[BOOM].sum(axis=0)) * np.sqrt(noise[CRACK].sum(axis=0))
    share = np.divide(blow, body, out=np.zeros_like(body), where=body > 0)
    return _level(scale * noise.sum(axis=0)), _level(scale * whole * share)


def _level(power: Floats) -> Floats:
    level = np.sqrt(power).astype(np.float32)
    return np.where(level < SILENT_LEVEL, np.float32(0), level)


@dataclass(frozen=True)
class EngineComparison:
    """How far the two engines are apart on one recording, as a part of the loudest value of each curve."""

    frames: int
    differences: dict[str, float]

    @property
    def largest(self) -> float:
        return max(self.differences.values())

    @property
    def agree(self) -> bool:
        return self.largest <= TOLERANCE


def compare_engines(path: Path, settings: Settings) -> EngineComparison:
    """Measure a recording with both engines."""
    from content_pipeline.media.curves.measure import primary_curves

    engines = [
        settings.model_copy(update={"energy": settings.energy.model_copy(update={"engine": engine})})
        for engine in ("streaming", "librosa")
    ]
    streaming, reference = (primary_curves(path, with_engine) for with_engine in engines)
    differences = {}
    for name in CURVE_NAMES:
        ours, theirs = getattr(streaming, name), getattr(reference, name)
        loudest = max(float(theirs.max(initial=0.0)), float(np.finfo(np.float32).tiny))
        differences[name] = float(np.abs(ours - theirs).max(initial=0.0)) / loudest
    return EngineComparison(len(reference.rms), differences)
