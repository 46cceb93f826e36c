"""The default detector written down plainly: one frame, one window, one run at a time. Slow, and easy to believe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from content_pipeline.media.curves.model import FRAME_RATE_HZ, Curves
from content_pipeline.media.detection import broadband as tuned
from content_pipeline.media.detection.broadband import BroadbandEvidence
from content_pipeline.media.detection.detector import Candidate
from content_pipeline.media.detection.rolling_stats import MEAN_STEP, NODE_FRAMES, PERCENTILE_STEP
from content_pipeline.media.spans import Span

Frames = NDArray[np.float64]


@dataclass(frozen=True)
class PlainEvidence:
    strength: Frames
    contrast: Frames
    sharp: Frames


def plain_evidence(curves: Curves, window_s: float) -> PlainEvidence:
    whole = np.minimum(curves.rms.astype(np.float64), 1) ** 2
    power = np.minimum(curves.broadband.astype(np.float64), 1) ** 2
    smooth = moving_mean(power, tuned.SMOOTHING_FRAMES)
    audible = [value for value in smooth[::PERCENTILE_STEP] if value > 1e-10]
    heard = smooth > max(np.percentile(audible, 99.5) * 1e-6, 1e-10)
    nodes = range(0, len(power) + NODE_FRAMES, NODE_FRAMES)
    floor = decibels([percentile_around(smooth, heard, node, window_s) for node in nodes])
    loudness = decibels([mean_around(whole, heard, node, window_s) for node in nodes])
    reference = np.interp(np.arange(len(power)), nodes, np.maximum(floor, loudness - tuned.LOUDNESS_ALLOWANCE_DB))
    blow = np.minimum(curves.punch.astype(np.float64), 1) ** 2
    share_db = decibels(
        [share_around(blow, whole, place // tuned.PUNCH_STEP * tuned.PUNCH_STEP) for place in range(len(whole))]
    )
    punch = (tuned.PUNCH_WEIGHT * (share_db - tuned.PUNCH_DB)).clip(-tuned.MOST_LACK_DB, tuned.MOST_GAIN_DB)
    full = decibels(smooth) - reference
    counted = np.where(full > tuned.CLEAR_DB, tuned.CLEAR_DB + (full - tuned.CLEAR_DB) / 2, full)
    contrast = np.where(heard, counted, tuned.LOWEST_DB)
    strength = np.where(heard, np.maximum(contrast + punch, tuned.LOWEST_DB), tuned.LOWEST_DB)
    return PlainEvidence(strength, contrast, sharp=decibels(power) - reference)


def share_around(blow: Frames, whole: Frames, first: int) -> float:
    """In the step that begins with a frame, and the steps beside it."""
    around = slice(max(0, first - tuned.PUNCH_STEP), first + 2 * tuned.PUNCH_STEP)
    return float(blow[around].sum() / max(whole[around].sum(), 1e-20))


def moving_mean(values: Frames, width: int) -> Frames:
    half = width // 2
    return np.array([values[max(0, place - half) : place + half + 1].mean() for place in range(len(values))])


def percentile_around(values: Frames, heard: NDArray[np.bool_], node: int, window_s: float) -> float:
    first, end = window_around(len(values), node, window_s, PERCENTILE_STEP)
    inside = sorted(
        value
        for value, is_heard in zip(values[first:end:PERCENTILE_STEP], heard[first:end:PERCENTILE_STEP], strict=True)
        if is_heard
    )
    return float(inside[round(tuned.FLOOR_PERCENT / 100 * (len(inside) - 1))])


def mean_around(values: Frames, heard: NDArray[np.bool_], node: int, window_s: float) -> float:
    first, end = window_around(len(values), node, window_s, MEAN_STEP)
    return float(values[first:end][heard[first:end]].mean())


def window_around(length: int, node: int, window_s: float, step: int) -> tuple[int, int]:
    """As long as asked, in whole steps, around the node, and moved inside the recording."""
    steps = -(-length // step)
    size = round(min(steps, window_s * FRAME_RATE_HZ / step))
    first = min(max(0, node // step - size // 2), steps - size)
    return first * step, (first + size) * step


def decibels(power: Frames | list[float]) -> Frames:
    return 10 * np.log10(np.maximum(power, 1e-20))


def plain_candidates(evidence: BroadbandEvidence, enter_db: float, shortest_s: float) -> list[Candidate]:
    """What the rules say of given evidence, without adaptation of the surroundings' length."""
    leave_db = enter_db - tuned.LEAVE_BELOW_ENTER_DB
    entering = [bool(level > enter_db) for level in evidence.strength]
    result = []
    edge_db = enter_db - tuned.EDGE_BELOW_ENTER_DB
    for first, end in plain_runs((evidence.strength > leave_db) & (evidence.contrast > edge_db)):
        sharp = [place for place in range(first, end) if evidence.sharp[place] > edge_db]
        exact = (sharp[0], sharp[-1] + 1) if sharp else (first, first)
        shown = exact if sharp else (first, end)
        score = float(evidence.power[shown[0] : shown[1]].sum(dtype=np.float64)) / evidence.average
        over_floor = np.interp(first / NODE_FRAMES, np.arange(len(evidence.over_floor)), evidence.over_floor)
        contrast = float(evidence.contrast[first:end].max())
        enters = any(entering[first:end])
        checks = {
            tuned.WEAK_CONTRAST: enters or contrast + over_floor > enter_db,
            tuned.DROWNED: enters or contrast > enter_db,
            tuned.DULL: enters,
            tuned.ISOLATED: sum(around(entering, first, end, tuned.BURST_REACH_S)) >= frames(tuned.BURST_S),
            tuned.UNEVENTFUL: is_action(entering, first, end),
            tuned.TOO_SHORT: bool(sharp) and (exact[1] - exact[0]) / FRAME_RATE_HZ >= shortest_s,
        }
        rule = next((name for name, is_met in checks.items() if not is_met), None)
        result.append(Candidate(Span(shown[0] / FRAME_RATE_HZ, shown[1] / FRAME_RATE_HZ), score, rule))
    return result


def plain_runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for place in np.flatnonzero(mask).tolist():
        if result and result[-1][1] == place:
            result[-1] = (result[-1][0], place + 1)
        else:
            result.append((place, place + 1))
    return result


def frames(duration_s: float) -> int:
    return round(duration_s * FRAME_RATE_HZ)


def around(mask: list[bool], first: int, end: int, reach_s: float) -> list[bool]:
    return mask[max(0, first - frames(reach_s)) : end + frames(reach_s)]


def is_action(entering: list[bool], first: int, end: int) -> bool:
    """Whether some stretch that begins around a run holds enough; of recordings that are longer than that."""
    reach, within = frames(tuned.SURROUNDINGS_S), frames(tuned.ACTION_WITHIN_S)
    starts = range(0, len(entering), tuned.ACTION_STEP)
    return any(
        sum(entering[start : start + within]) >= frames(tuned.ACTION_S)
        for start in starts
        if first - reach <= start < end + reach
    )
