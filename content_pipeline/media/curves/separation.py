"""Sound in, curves out, block by block: the whole-file result of librosa in a few megabytes.

The percussive curve is `rms(hpss(y)[1])`: a short-time Fourier transform, medians of the power over 31 frames
(what lasts: harmonic) and over 31 bins (what is broad: percussive), a soft mask, the inverse transform, and the
RMS of the result. A median commutes with anything that keeps order, so it is taken of 16-bit codes of the power.

Percussive results come one group (16 frames) after their input, because the median over time looks 15 frames ahead.
Everything is done in place, in buffers a core's own cache can hold, and in 32 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from content_pipeline.media.curves.frame_series import HANN, OVERLAP, Series, rms_of_frames, window_sum
from content_pipeline.media.curves.medians import GROUP, HALF, RunningMedian, mirrored
from content_pipeline.media.curves.memory import keep_freed_memory
from content_pipeline.media.curves.model import FRAME_SAMPLES, HOP_SAMPLES, Curves

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

BINS = FRAME_SAMPLES // 2 + 1
LOUDEST_SAMPLE = 2.0**16  # full scale is 1; what lies beyond this is damage, and would not fit the codes


_HANN_POWER = float((HANN**2).sum())

# A code is 16 bits of a float32 power: 7 of the exponent, 9 of the mantissa. The two bits above are always zero,
# because scaling keeps the power below 2; the floor keeps it clear of subnormal numbers, which are slow.
_SCALE = 2.0**-26
_ANALYSIS = (HANN * (_SCALE * FRAME_SAMPLES)).astype(np.float32)
# Four squared windows add up to 3/2 everywhere but at the edges.
_WHOLE_SUM = 1.5
_SYNTHESIS = (HANN / (_SCALE * _WHOLE_SUM)).reshape(OVERLAP, HOP_SAMPLES).astype(np.float32)
_FLOOR = np.finfo(np.float32).tiny
_CODE_SHIFT = 14
_FLOOR_CODE = int(_FLOOR.view(np.uint32)) >> _CODE_SHIFT

# Of white noise about half the power lies below min(power, median): this makes its broadband level equal its RMS.
NOISE_SHARE = 0.528
_BROADBAND_SCALE = 2.0 / (FRAME_SAMPLES * _HANN_POWER * NOISE_SHARE * _SCALE**2)
SILENT_LEVEL = 1e-9  # what the floor of the codes adds up to

# Where a blow sounds at once, in bins of 10.8 Hz: its boom, up to 215 Hz, and its crack, around 1.3 kHz. They are held
# against all that lies below 4.6 kHz: how much hiss a recording has above that says nothing.
BOOM, CRACK, BODY = slice(0, 20), slice(84, 169), slice(0, 426)


class CurveStream:
    """Builds the curves of one track from mono blocks at 22,050 Hz; the size of the blocks does not matter.

    How many samples are expected decides about memory, nothing else.
    """

    def __init__(self, percussive_margin: float, groups: int = 6, expected_samples: float = 0) -> None:
        self._groups = groups
        self._frames = GROUP * groups
        self._weight = np.float32(percussive_margin**2)
        self._allocate()
        self._filled = FRAME_SAMPLES // 2  # librosa centres frame 0 on sample 0: half a frame of silence before it
        self._samples_seen = 0
        self._first_frame = 0  # of the block being filled
        self._last_frame: int | None = None  # of the recording, once its end is known
        self._was_silent = True
        # Results come by the block, and a group late.
        values = int(expected_samples / HOP_SAMPLES) + 2 * self._frames + GROUP + OVERLAP
        self._hop_energy, self._percussive_energy = Series(values), Series(values)
        self._broadband_power, self._punch_power = Series(values), Series(values)

    def _allocate(self) -> None:
        keep_freed_memory()
        self._samples = np.zeros((self._frames - 1) * HOP_SAMPLES + FRAME_SAMPLES, np.float32)
        hop_bytes = HOP_SAMPLES * self._samples.itemsize
        self._framed = as_strided(self._samples, (self._frames, FRAME_SAMPLES), (hop_bytes, self._samples.itemsize))
        self._windowed = np.empty((self._frames, FRAME_SAMPLES), np.float32)
        self._squares = np.empty((self._frames, 2 * BINS), np.float32)
        self._power = np.empty((self._frames, BINS), np.float32)
        self._codes = np.empty((self._frames, BINS), np.uint16)
        self._over_time = RunningMedian(self._groups + 2, BINS)
        self._over_time.values[:] = _FLOOR_CODE
        self._over_frequency = RunningMedian(BINS // GROUP + 3, self._frames)
        self._harmonic = np.empty((self._frames, BINS), np.float32)
        # The last group of the block before stands in front: its harmonic part is known only now.
        self._spectrum = np.zeros((GROUP + self._frames, BINS), np.complex64)
        self._percussive = np.full((GROUP + self._frames, BINS), _FLOOR, np.float32)
        # So do the last three frames of sound, which reach into this block.
        self._sound = np.zeros((OVERLAP - 1 + self._frames, FRAME_SAMPLES), np.float32)
        frame_bytes, sample_bytes = self._sound.strides
        self._quarters = as_strided(
            self._sound[OVERLAP - 1 :],
            (OVERLAP, self._frames, HOP_SAMPLES),
            (hop_bytes - frame_bytes, frame_bytes, sample_bytes),
        )

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
        while self._first_frame < self._last_frame + GROUP + OVERLAP:
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
            punch=_level(self._punch_power.take()[:frames]),
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
        self._transform()
        self._encode_power()
        self._median_over_frequency()
        self._append_noise()
        self._keep_percussive()
        self._percussive_energy.append(self._overlap_add())

    def _append_silence(self) -> None:
        """Two silent blocks in a row: nothing sounds in the results, and what is kept between blocks is silence."""
        for results in (self._broadband_power, self._punch_power, self._percussive_energy):
            results.append_zeros(self._frames)

    def _transform(self) -> None:
        np.multiply(self._framed, _ANALYSIS, out=self._windowed)
        self._spectrum[:GROUP] = self._spectrum[-GROUP:]
        # Scaled "forward" numpy transforms in 32 bits; by default it would go to 64 and back.
        np.fft.rfft(self._windowed, norm="forward", out=self._spectrum[GROUP:])  # type: ignore[arg-type]  # typed for 64
        if self._last_frame is not None:
            past_end = max(0, self._last_frame + 1 - self._first_frame)
            self._spectrum[GROUP + past_end :] = 0

    def _encode_power(self) -> None:
        """Append the codes of the power to the two groups kept of the last block; mirror them at either end."""
        parts = self._spectrum[GROUP:].view(np.float32)
        np.multiply(parts, parts, out=self._squares)
        np.add(self._squares[:, ::2], self._squares[:, 1::2], out=self._power)
        np.add(self._power, _FLOOR, out=self._power)  # lost on all but silence, and twice as fast as a maximum
        np.right_shift(self._power.view(np.uint32), _CODE_SHIFT, out=self._codes, casting="unsafe")
        codes = self._over_time.values
        codes[:, :2] = codes[:, -2:]
        codes[:, 2:] = self._in_groups(self._codes)
        self._mirror(codes)

    def _in_groups(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values per frame in the order of `medians`: frame `16 * g + r` at `[r, g]`."""
        return values.reshape(self._groups, GROUP, -1).transpose(1, 0, 2)

    def _mirror(self, codes: NDArray[Any]) -> None:
        last = self._last_frame
        if last is None and self._first_frame > 0:
            return
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

    def _median_over_frequency(self) -> None:
        """Leaves the medians in `_percussive` as power."""
        whole = BINS // GROUP
        codes = self._codes
        in_groups = codes[:, :-1].reshape(self._frames, whole, GROUP)
        bins = self._over_frequency.values
        bins[:, 1 : whole + 1] = in_groups.transpose(2, 1, 0)
        bins[0, whole + 1] = codes[:, -1]
        bins[1:, 0] = bins[HALF - 1 :: -1, 1]
        bins[1, whole + 1] = bins[0, whole + 1]
        bins[2:, whole + 1] = bins[:1:-1, whole]
        medians = self._over_frequency()
        in_groups[:] = medians[:, :whole].transpose(2, 1, 0)
        codes[:, -1] = medians[0, whole]
        self._percussive[:GROUP] = self._percussive[-GROUP:]
        _decode(codes, self._percussive[GROUP:])

    def _append_noise(self) -> None:
        """What of each frame is noise, min(power, median): its sum, and the share of the whole that is a blow."""
        whole, body = _sum(self._power), _sum(self._power[:, BODY])
        noise = np.minimum(self._power, self._percussive[GROUP:], out=self._power)
        self._broadband_power.append(_sum(noise))
        # The geometric mean is large only where both are; of each the root first, or the product would be too small.
        blow = np.sqrt(_sum(noise[:, BOOM])) * np.sqrt(_sum(noise[:, CRACK]))
        self._punch_power.append(whole * blow / body)

    def _keep_percussive(self) -> None:
        """Leaves in `_spectrum` its percussive part but for the last group: the share p / (p + margin^2 h) of each bin.

        Here p and h are the medians of power over frequency and over time.
        """
        share, percussive = self._harmonic, self._percussive[:-GROUP]
        _decode(self._over_time(), self._in_groups(share))
        np.multiply(share, self._weight, out=share)
        np.add(share, percussive, out=share)
        np.divide(percussive, share, out=share)
        spectrum = self._spectrum[:-GROUP]
        np.multiply(spectrum, share, out=spectrum)

    def _overlap_add(self) -> Floats:
        """The percussive sound of the block, as the energy of each hop."""
        overlapping = OVERLAP - 1
        self._sound[:overlapping] = self._sound[-overlapping:]
        sound = self._sound[overlapping:]
        np.fft.irfft(self._spectrum[:-GROUP], FRAME_SAMPLES, out=sound)  # type: ignore[arg-type]  # typed for 64 bits
        hops = np.einsum("pfs,ps->fs", self._quarters, _SYNTHESIS)
        energy: Floats = np.einsum("fs,fs->f", hops, hops)
        self._correct_edges(energy, hops)
        return energy

    def _correct_edges(self, energy: Floats, hops: Floats) -> None:
        """At either end fewer windows overlap, and the last hop is cut at the last sample."""
        last = self._last_frame
        first_hop = self._first_frame - GROUP - 2
        for hop in {0} if last is None else {0, last - 1, last}:
            if hop >= 0 and 0 <= hop - first_hop < self._frames:
                sound = hops[hop - first_hop] * np.float32(_WHOLE_SUM) / window_sum(hop, last)
                if hop == last:
                    sound = sound[: self._samples_seen - hop * HOP_SAMPLES]
                energy[hop - first_hop] = np.dot(sound, sound)


def _sum(power: Floats) -> Floats:
    """Over frequency, of each frame."""
    total: Floats = np.einsum("fb->f", power)
    return total


def _level(power: Floats) -> Floats:
    """Written over the power."""
    power *= np.float32(_BROADBAND_SCALE)
    np.sqrt(power, out=power)
    power[power < SILENT_LEVEL] = 0
    return power


def _decode(codes: NDArray[np.uint16], power: Floats) -> None:
    """The power that 16-bit codes stand for."""
    bits = power.view(np.uint32)
    bits[:] = codes
    np.left_shift(bits, _CODE_SHIFT, out=bits)
