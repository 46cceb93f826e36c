"""Sound in, curves out, block by block: the whole-file result of librosa in a few megabytes.

The percussive curve is `rms(hpss(y)[1])`: a short-time Fourier transform, medians of the power over 31 frames
(what lasts: harmonic) and over 31 bins (what is broad: percussive), a soft mask, the inverse transform, and the
RMS of the result. A median commutes with anything that keeps order, so it is taken of 16-bit codes of the power.

Frames are kept in the order of `medians`: number `16 * g + r` of a block at `[r, g]`. Percussive results come one
group (16 frames) after their input, because the median over time looks 15 frames ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft

from content_pipeline.media.curves import FRAME_SAMPLES, HOP_SAMPLES, Curves
from content_pipeline.media.hops import HANN, OVERLAP, Series, rms_of_frames, window_sum
from content_pipeline.media.medians import GROUP, HALF, RunningMedian, mirrored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

BINS = FRAME_SAMPLES // 2 + 1
LOUDEST_SAMPLE = 2.0**16  # full scale is 1; what lies beyond this is damage, and would not fit the codes

_KEPT_BYTES = 16 << 20

_HANN_POWER = float((HANN**2).sum())

# A code is 16 bits of a float32 power: 7 of the exponent, 9 of the mantissa. The two bits above are always zero,
# because scaling keeps the power below 2; the floor keeps it clear of subnormal numbers, which are slow.
_SCALE = 2.0**-26
_FLOOR = np.finfo(np.float32).tiny
_CODE_SHIFT = 14
_FLOOR_CODE = int(_FLOOR.view(np.uint32)) >> _CODE_SHIFT

# Of white noise about half the power lies below min(power, median): this makes its broadband level equal its RMS.
_NOISE_SHARE = 0.528
_BROADBAND_SCALE = 2.0 / (FRAME_SAMPLES * _HANN_POWER * _NOISE_SHARE * _SCALE**2)
_SILENT_LEVEL = 1e-9  # what the floor of the codes adds up to


class CurveStream:
    """Builds the curves of one track from mono blocks at 22,050 Hz; the size of the blocks does not matter."""

    def __init__(self, percussive_margin: float, groups: int = 6) -> None:
        self._groups = groups
        self._frames = GROUP * groups
        self._weight = np.float32(percussive_margin**2)
        self._allocate()
        self._filled = FRAME_SAMPLES // 2  # librosa centres frame 0 on sample 0: half a frame of silence before it
        self._samples_seen = 0
        self._first_frame = 0  # of the block being filled
        self._last_frame: int | None = None  # of the recording, once its end is known
        self._was_silent = True
        self._hop_energy = Series()
        self._percussive_energy = Series()
        self._broadband_power = Series()

    def _allocate(self) -> None:
        # Freed once, an untouched block this large teaches glibc to keep what each transform allocates and frees;
        # else its pages go back to the system and come again as faults, a sixth of all time.
        np.empty(_KEPT_BYTES, np.uint8)
        shape = (GROUP, self._groups)
        # Whole arrays, because numpy is several times slower at repeating one row over a permuted array.
        window = np.broadcast_to(HANN, (*shape, FRAME_SAMPLES))
        self._window = (window * _SCALE).astype(np.float32)
        self._synthesis_window = (window / _SCALE).astype(np.float32)
        self._samples = np.zeros((self._frames - 1) * HOP_SAMPLES + FRAME_SAMPLES, np.float32)
        sample_bytes = self._samples.itemsize
        hop_bytes = HOP_SAMPLES * sample_bytes
        self._framed = np.lib.stride_tricks.as_strided(
            self._samples, (*shape, FRAME_SAMPLES), (hop_bytes, GROUP * hop_bytes, sample_bytes), writeable=False
        )
        self._windowed = np.empty((*shape, FRAME_SAMPLES), np.float32)
        self._squares = np.empty((*shape, 2 * BINS), np.float32)
        self._power = np.empty((*shape, BINS), np.float32)
        self._over_time = RunningMedian(self._groups + 2, BINS)
        self._over_time.values[:] = _FLOOR_CODE
        self._over_frequency = RunningMedian(BINS // GROUP + 3, self._frames)
        self._codes = np.empty((*shape, BINS), np.uint16)
        self._percussive = np.empty((*shape, BINS), np.uint32)
        self._harmonic = np.empty((*shape, BINS), np.uint32)
        self._broad = np.empty((GROUP, BINS // GROUP + 1, self._frames), np.uint32)
        self._masked = np.empty((*shape, BINS), np.complex64)
        self._last_spectrum = np.zeros((GROUP, BINS), np.complex64)
        self._last_percussive = np.full((GROUP, BINS), _FLOOR, np.float32)
        self._pieces = np.zeros((self._frames + OVERLAP - 1, FRAME_SAMPLES), np.float32)

    def push(self, samples: Floats) -> None:
        self._samples_seen += len(samples)
        while len(samples):
            count = min(len(samples), len(self._samples) - self._filled)
            target = self._samples[self._filled : self._filled + count]
            np.clip(samples[:count], -LOUDEST_SAMPLE, LOUDEST_SAMPLE, out=target)
            self._filled += count
            samples = samples[count:]
            if self._filled == len(self._samples):
                self._advance()

    def finish(self) -> Curves:
        """Close the recording: silence follows, and the median over time sees its last frames mirrored."""
        self._last_frame = self._samples_seen // HOP_SAMPLES
        # Results lag by a group, and the last hop needs the two (absent) frames after it.
        while self._first_frame < self._last_frame + GROUP + OVERLAP - 1:
            self._samples[self._filled :] = 0
            self._advance()
        frames = self._last_frame + 1
        percussive = self._percussive_energy.take()[GROUP:]
        percussive[:2] = 0  # before the first sample
        percussive[frames + 2 :] = 0
        return Curves(
            percussive=rms_of_frames(percussive, frames),
            rms=rms_of_frames(self._hop_energy.take(), frames),
            broadband=_level(self._broadband_power.take()[:frames]),
        )

    def _advance(self) -> None:
        """Turn the full buffer into one block of results, and keep the overlap."""
        self._measure_block()
        consumed = self._frames * HOP_SAMPLES
        kept = len(self._samples) - consumed
        self._samples[:kept] = self._samples[consumed:].copy()
        self._filled = kept
        self._first_frame += self._frames

    def _measure_block(self) -> None:
        hops = self._samples[: self._frames * HOP_SAMPLES].reshape(self._frames, HOP_SAMPLES)
        hop_energy = np.einsum("ij,ij->i", hops, hops)
        self._hop_energy.append(hop_energy)
        is_silent = not hop_energy.any() and not self._samples[hops.size :].any()
        if is_silent and self._was_silent and self._first_frame > 0:
            self._append_silence()
            return
        self._was_silent = is_silent
        spectrum = self._transform()
        self._encode_power(spectrum)
        self._broadband_power.append(self._median_over_frequency())
        self._keep_percussive(spectrum)
        self._percussive_energy.append(self._overlap_add())

    def _append_silence(self) -> None:
        """Two silent blocks in a row: nothing sounds in the results, and what is kept between blocks is silence."""
        self._broadband_power.append_zeros(self._frames)
        self._percussive_energy.append_zeros(self._frames)

    def _transform(self) -> NDArray[np.complex64]:
        np.multiply(self._framed, self._window, out=self._windowed)
        spectrum: NDArray[np.complex64] = fft.rfft(self._windowed, overwrite_x=True)
        if self._last_frame is not None:
            for frame in range(max(self._last_frame + 1, self._first_frame), self._first_frame + self._frames):
                group, row = divmod(frame - self._first_frame, GROUP)
                spectrum[row, group] = 0  # after the last frame
        return spectrum

    def _encode_power(self, spectrum: NDArray[np.complex64]) -> None:
        """Append the codes of the power to the two groups kept of the last block; mirror them at either end."""
        parts = spectrum.view(np.float32)
        np.multiply(parts, parts, out=self._squares)
        np.add(self._squares[..., ::2], self._squares[..., 1::2], out=self._power)
        np.maximum(self._power, _FLOOR, out=self._power)
        bits = self._power.view(np.uint32)
        np.right_shift(bits, _CODE_SHIFT, out=bits)
        self._codes[:] = bits
        codes = self._over_time.values
        codes[:, :2] = codes[:, -2:]
        codes[:, 2:] = self._codes
        self._mirror(codes)

    def _mirror(self, codes: NDArray[Any]) -> None:
        last = self._last_frame
        count = self._first_frame + self._frames if last is None else last + 1
        outside = np.arange(0)
        if self._first_frame == 0:
            outside = np.arange(-HALF, 0)
        if last is not None:
            after = np.arange(max(last + 1, self._first_frame), min(last + 1 + HALF, self._first_frame + self._frames))
            outside = np.concatenate([outside, after])
        for frame, seen in zip(outside, mirrored(outside, count), strict=True):
            (group, row), (from_group, from_row) = (
                divmod(int(number) - self._first_frame + 2 * GROUP, GROUP) for number in (frame, seen)
            )
            codes[row, group] = codes[from_row, from_group]

    def _median_over_frequency(self) -> Floats:
        """Leaves the medians in `_percussive` as power; gives the power of the broadband sound of each frame."""
        whole = BINS // GROUP
        codes = self._codes.reshape(self._frames, BINS)
        bins = self._over_frequency.values
        bins[:, 1 : whole + 1] = codes[:, :-1].reshape(self._frames, whole, GROUP).transpose(2, 1, 0)
        bins[0, whole + 1] = codes[:, -1]
        bins[1:, 0] = bins[HALF - 1 :: -1, 1]
        bins[1, whole + 1] = bins[0, whole + 1]
        bins[2:, whole + 1] = bins[:1:-1, whole]
        medians = self._over_frequency()
        power = self._percussive.reshape(self._frames, BINS)
        power[:, :-1].reshape(self._frames, whole, GROUP)[:] = medians[:, :whole].transpose(2, 1, 0)
        power[:, -1] = medians[0, whole]
        np.left_shift(power, _CODE_SHIFT, out=power)
        return self._sum_below(bins[:, 1:-1], medians)

    def _sum_below(self, bins: NDArray[Any], medians: NDArray[Any]) -> Floats:
        """The sum over frequency of min(power, median); order `[r, g]` becomes order of time."""
        np.minimum(bins, medians, out=medians)
        self._broad[:] = medians
        np.left_shift(self._broad, _CODE_SHIFT, out=self._broad)
        power = self._broad.view(np.float32)
        total = np.einsum("ijk->k", power[:, :-1]) + power[0, -1]  # faster than `sum`
        in_time: Floats = total.reshape(GROUP, self._groups).T.reshape(-1)
        return in_time

    def _keep_percussive(self, spectrum: NDArray[np.complex64]) -> None:
        """Leaves in `_masked` the percussive part of the spectrum, from one group before the block on."""
        self._harmonic[:] = self._over_time()
        np.left_shift(self._harmonic, _CODE_SHIFT, out=self._harmonic)
        harmonic, percussive = self._harmonic.view(np.float32), self._percussive.view(np.float32)
        np.multiply(harmonic, self._weight, out=harmonic)
        _mask(self._last_spectrum, self._last_percussive, harmonic[:, 0], out=self._masked[:, 0])
        self._last_spectrum[:], self._last_percussive[:] = spectrum[:, -1], percussive[:, -1]
        _mask(spectrum[:, :-1], percussive[:, :-1], harmonic[:, 1:], out=self._masked[:, 1:])

    def _overlap_add(self) -> Floats:
        """The percussive sound of the block, as the energy of each hop."""
        sound = fft.irfft(self._masked, FRAME_SAMPLES, overwrite_x=True)
        pieces, extra = self._pieces, OVERLAP - 1
        pieces[:extra] = pieces[-extra:]
        in_time = pieces[extra:].reshape(self._groups, GROUP, FRAME_SAMPLES).transpose(1, 0, 2)
        np.multiply(sound, self._synthesis_window, out=in_time)
        hops = pieces[extra:, :HOP_SAMPLES].copy()
        for part in range(1, OVERLAP):
            hops += pieces[extra - part : len(pieces) - part, part * HOP_SAMPLES : (part + 1) * HOP_SAMPLES]
        # Four squared windows add up to 3/2 everywhere but at the edges.
        energy: Floats = np.einsum("ij,ij->i", hops, hops) * np.float32(1 / 1.5**2)
        self._correct_edges(energy, hops)
        return energy

    def _correct_edges(self, energy: Floats, hops: Floats) -> None:
        """At either end fewer windows overlap, and the last hop is cut at the last sample."""
        last = self._last_frame
        first_hop = self._first_frame - GROUP - 2
        for hop in {0} if last is None else {0, last - 1, last}:
            if hop >= 0 and 0 <= hop - first_hop < self._frames:
                sound = hops[hop - first_hop] / window_sum(hop, last)
                if hop == last:
                    sound = sound[: self._samples_seen - hop * HOP_SAMPLES]
                energy[hop - first_hop] = np.dot(sound, sound)


def _level(power: Floats) -> Floats:
    level: Floats = np.sqrt(power * np.float32(_BROADBAND_SCALE))
    level[level < _SILENT_LEVEL] = 0
    return level


def _mask(spectrum: NDArray[np.complex64], percussive: Floats, harmonic: Floats, out: NDArray[np.complex64]) -> None:
    """Keep the share of each bin that is percussive, p / (p + margin^2 h), of median powers; overwrites both."""
    np.add(harmonic, percussive, out=harmonic)
    np.divide(percussive, harmonic, out=percussive)
    np.multiply(spectrum, percussive, out=out)
