"""The detections plot: level, threshold, what was kept, what was dropped and why, and the highlights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

from content_pipeline.media.curves.model import FRAME_RATE_HZ
from content_pipeline.media.preview.canvas import (
    BLUE,
    GREEN,
    GRID,
    INK,
    MIST,
    MUTED,
    PAPER,
    SLATE,
    VERMILION,
    Colour,
    Rectangle,
    as_png,
    clock,
    drawable,
    fitted,
    font,
    write,
)
from content_pipeline.media.preview.envelope import Envelope, envelope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from content_pipeline.media.detection.detector import Candidate
    from content_pipeline.media.selection.highlights import Highlight
    from content_pipeline.media.spans import Span

    Pixels = NDArray[np.float32]

WIDTH_PX, HEIGHT_PX = 1200, 360
PLOT = Rectangle(66, 82, 1162, 272)
KEPT_LANE = Rectangle(PLOT.left, 282, PLOT.right, 294)
DROPPED_LANE = Rectangle(PLOT.left, 300, PLOT.right, 312)
BAND = Rectangle(PLOT.left, PLOT.top, PLOT.right, DROPPED_LANE.bottom + 4)
_TITLE_BASELINE, _LEGEND_BASELINE, _UNIT_BASELINE, _TIME_BASELINE = 27, 52, 74, 338
_SMALL, _TITLE = 12, 18
_PALETTE = 32
_MARK_PX = 9
_MOST_RULES = 4  # one shape each; the rest share the last

_NICE_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_MOST_TIME_TICKS = 13


@dataclass(frozen=True)
class TimeScale:
    """Seconds to pixels."""

    duration_s: float

    def x(self, seconds: float) -> float:
        share = min(1.0, max(0.0, seconds / self.duration_s))
        return PLOT.left + share * PLOT.width

    def extent(self, span: Span, narrowest_px: int) -> tuple[int, int]:
        """Pixel columns of a span, widened about its middle until it can be seen."""
        left, right = round(self.x(span.start_s)), round(self.x(span.end_s))
        if right - left < narrowest_px:
            left = min(round(self.x(span.middle_s) - narrowest_px / 2), PLOT.right - narrowest_px)
            left = max(left, PLOT.left)
            right = left + narrowest_px
        return left, right


@dataclass(frozen=True)
class LevelScale:
    """Level to pixels, counted down from the plot's top."""

    low: float
    high: float

    def y(self, level: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip((self.high - level) / (self.high - self.low), 0.0, 1.0) * PLOT.height


@dataclass(frozen=True, eq=False)
class DetectionsPlot:
    """What the plot shows: what was compared, one value per frame of the curves, and what came of it.

    Highlights are numbered in the order given, as on the contact sheet. Candidates without a rule are in a clip.
    """

    title: str
    level: NDArray[np.floating]
    threshold: NDArray[np.floating]
    unit: str
    duration_s: float
    candidates: Sequence[Candidate]
    highlights: Sequence[Highlight]


def detections_plot(plot: DetectionsPlot) -> bytes:
    """A PNG of what detection compared and decided."""
    scale = TimeScale(_shown_duration_s(plot.duration_s, len(plot.level)))
    heard = envelope(plot.level, FRAME_RATE_HZ, scale.duration_s, PLOT.width)
    asked = envelope(plot.threshold, FRAME_RATE_HZ, scale.duration_s, PLOT.width)
    levels = _level_scale(heard, asked)

    pixels = np.full((HEIGHT_PX, WIDTH_PX, 3), PAPER, dtype=np.float32)
    _paint_grid(pixels, scale, levels)
    _paint_bands(pixels, scale, plot.highlights)
    _paint_level(pixels, levels, heard, asked)
    _paint_threshold(pixels, levels, asked)

    image = Image.fromarray(pixels.round().astype(np.uint8))
    rules = _rules(plot.candidates)
    _write_heading(image, plot, scale)
    _write_legend(image, rules, plot)
    _write_axes(image, scale, levels, plot.unit)
    _draw_events(image, scale, plot.candidates, rules)
    _write_numbers(image, scale, plot.highlights)
    _say_when_empty(image, plot.candidates)
    return as_png(image, _PALETTE)


def _shown_duration_s(duration_s: float, frames: int) -> float:
    for length_s in (duration_s, frames / FRAME_RATE_HZ):
        if math.isfinite(length_s) and length_s > 0:
            return length_s
    return 1.0


def _level_scale(heard: Envelope, asked: Envelope) -> LevelScale:
    """Fit what matters: the loudest column and the threshold, and not the rare drop into digital silence."""
    ends = [part[np.isfinite(part)] for part in (heard.low, heard.high, asked.low, asked.high)]
    known = np.concatenate(ends)
    if known.size == 0:
        return LevelScale(0.0, 1.0)
    high = float(known.max())
    lows = [float(np.percentile(part, 2)) for part in (ends[0], ends[2]) if part.size]
    low = 0.0 if known.min() >= 0 else min(lows)
    room = (high - low) * 0.06 if high > low else 1.0
    return LevelScale(low if low == 0 else low - room, high + 2 * room)


# The curve, as coverage of pixels: antialiased, and the same work for a minute as for a day.


def _paint(pixels: Pixels, area: Rectangle, share: NDArray[np.floating] | float, colour: Colour) -> None:
    region = pixels[area.top : area.bottom, area.left : area.right]
    weight = np.asarray(share, dtype=np.float32)
    region += (weight[..., None] if weight.ndim else weight) * (np.asarray(colour, dtype=np.float32) - region)


def _coverage(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float32]:
    """Share of each of the plot's pixels between `top` and `bottom`, one of each per column."""
    top, bottom = top.astype(np.float32), bottom.astype(np.float32)
    rows = np.arange(PLOT.height, dtype=np.float32)[:, None]
    covered = np.minimum(bottom, rows + 1) - np.maximum(top, rows)
    share: NDArray[np.float32] = np.nan_to_num(np.clip(covered, 0, 1), nan=0.0)
    return share


def _stroke(top: NDArray[np.float64], bottom: NDArray[np.float64], thickness_px: float) -> NDArray[np.float32]:
    """Coverage of what lies between two heights in each column, at least `thickness_px` of it."""
    missing = np.maximum(0.0, thickness_px - (bottom - top)) / 2
    return _coverage(top - missing, bottom + missing)


def _line(y: NDArray[np.float64], thickness_px: float) -> NDArray[np.float32]:
    """Coverage of a line through one height per column, without holes between columns."""
    following = np.append(y[1:], np.nan)
    return _stroke(np.fmin(y, following), np.fmax(y, following), thickness_px)


def _paint_bands(pixels: Pixels, scale: TimeScale, highlights: Sequence[Highlight]) -> None:
    for highlight in highlights:
        left, right = scale.extent(highlight.span, narrowest_px=2)
        _paint(pixels, Rectangle(left, BAND.top, right, BAND.bottom), 0.15, GREEN)
        _paint(pixels, Rectangle(left, BAND.top, right, BAND.top + 3), 0.8, GREEN)


def _paint_grid(pixels: Pixels, scale: TimeScale, levels: LevelScale) -> None:
    for tick in _level_ticks(levels):
        y = PLOT.top + min(PLOT.height - 1, round(float(levels.y(np.array(tick)))))
        _paint(pixels, Rectangle(PLOT.left, y, PLOT.right, y + 1), 0.8, GRID)
    for tick in _time_ticks(scale):
        x = min(PLOT.right - 1, round(scale.x(tick)))
        _paint(pixels, Rectangle(x, PLOT.top, x + 1, BAND.bottom), 0.8, GRID)
    _paint(pixels, Rectangle(PLOT.left, PLOT.bottom, PLOT.right, PLOT.bottom + 1), 1.0, MIST)


def _paint_level(pixels: Pixels, levels: LevelScale, heard: Envelope, asked: Envelope) -> None:
    """Spread in a light tone, mean in a dark one, and in blue what stands above the threshold."""
    spread = _stroke(levels.y(heard.high), levels.y(heard.low), 1.6)
    above = _coverage(np.zeros(PLOT.width), np.nan_to_num(levels.y(asked.mean), nan=0.0))
    _paint(pixels, PLOT, spread * (1 - above), MIST)
    _paint(pixels, PLOT, _line(levels.y(heard.mean), 1.4) * (1 - above), SLATE)
    _paint(pixels, PLOT, spread * above, BLUE)


def _paint_threshold(pixels: Pixels, levels: LevelScale, asked: Envelope) -> None:
    dashes = np.arange(PLOT.width) % 9 < 6
    _paint(pixels, PLOT, _line(levels.y(asked.mean), 1.5) * dashes, INK)


# Axes.


def _level_ticks(levels: LevelScale) -> list[float]:
    rough = (levels.high - levels.low) / 4
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(magnitude * nice for nice in (1, 2, 5, 10) if magnitude * nice >= rough)
    first = math.ceil(levels.low / step)
    return [index * step for index in range(first, math.floor(levels.high / step) + 1)]


def _time_ticks(scale: TimeScale) -> list[float]:
    step = _time_step_s(scale)
    return [index * step for index in range(int(scale.duration_s / step + 1e-6) + 1)]


def _time_step_s(scale: TimeScale) -> float:
    longest = scale.duration_s / (_MOST_TIME_TICKS - 1)
    return next((step for step in _NICE_STEPS_S if step >= longest), 86400.0 * math.ceil(longest / 86400))


def _write_axes(image: Image.Image, scale: TimeScale, levels: LevelScale, unit: str) -> None:
    for tick in _level_ticks(levels):
        y = PLOT.top + float(levels.y(np.array(tick)))
        write(image, (PLOT.left - 8, y), f"{tick:.4g}", _SMALL, MUTED, "rm")
    write(image, (PLOT.left - 8, _UNIT_BASELINE), fitted(unit, _SMALL, 200), _SMALL, MUTED, _unit_anchor(unit))
    decimals = 1 if _time_step_s(scale) < 1 else 0
    for tick in _time_ticks(scale):
        text = clock(tick, hours=scale.duration_s >= 3600, decimals=decimals)
        write(image, (scale.x(tick), _TIME_BASELINE), text, _SMALL, MUTED, "ms")
    for lane, text in ((KEPT_LANE, "kept"), (DROPPED_LANE, "dropped")):
        write(image, (PLOT.left - 8, (lane.top + lane.bottom) / 2), text, _SMALL, MUTED, "rm")


def _unit_anchor(unit: str) -> str:
    """Short units end at the axis, as its numbers do; long ones start there."""
    return "rs" if font(_SMALL).getlength(drawable(unit)) < PLOT.left - 12 else "ls"


# Events.


def _rules(candidates: Iterable[Candidate]) -> Counter[str]:
    """How many candidates each rule dropped; the commonest rules by name."""
    counted = Counter(candidate.dropped_by for candidate in candidates if candidate.dropped_by is not None)
    if len(counted) <= _MOST_RULES:
        return Counter(dict(counted.most_common()))
    named = dict(counted.most_common(_MOST_RULES - 1))
    return Counter({**named, "other rules": counted.total() - sum(named.values())})


def _kept(candidates: Iterable[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.dropped_by is None]


def _draw_events(image: Image.Image, scale: TimeScale, candidates: Sequence[Candidate], rules: Counter[str]) -> None:
    draw = ImageDraw.Draw(image)
    for candidate in _kept(candidates):
        left, right = scale.extent(candidate.span, narrowest_px=3)
        draw.rectangle((left, KEPT_LANE.top + 1, right - 1, KEPT_LANE.bottom - 2), fill=BLUE)
    middle = (DROPPED_LANE.top + DROPPED_LANE.bottom) // 2
    names = list(rules)
    marks: set[tuple[int, int]] = set()
    for candidate in candidates:
        rule = candidate.dropped_by
        if rule is not None:
            left, right = scale.extent(candidate.span, narrowest_px=1)
            draw.line((left, middle, right - 1, middle), fill=VERMILION)
            shape = names.index(rule) if rule in rules else len(names) - 1
            # Marks that would hide each other are drawn once; the legend counts them all.
            marks.add((round(scale.x(candidate.span.middle_s) / 3) * 3, shape))
    for x, shape in sorted(marks):
        _draw_mark(image, x, middle, shape)


def _draw_mark(image: Image.Image, x: int, y: int, shape: int) -> None:
    half = _MARK_PX // 2
    image.paste(PAPER, (x - half, y - half), _mark(shape, filled=True))
    image.paste(VERMILION, (x - half, y - half), _mark(shape, filled=False))


@cache
def _mark(shape: int, *, filled: bool) -> Image.Image:
    """A hollow diamond, triangle, circle or square: the shape names the rule, with or without colours."""
    fine = 8
    side = _MARK_PX * fine
    mask = Image.new("L", (side, side))
    draw = ImageDraw.Draw(mask)
    pen = int(1.5 * fine)
    fill = 255 if filled else None
    edge, far, middle = 2, side - 3, side // 2
    if shape == 2:
        draw.ellipse((edge, edge, far, far), fill=fill, outline=255, width=pen)
    else:
        corners = {
            0: [(middle, edge), (far, middle), (middle, far), (edge, middle)],
            1: [(middle, edge), (far, far), (edge, far)],
            3: [(edge + 4, edge + 4), (far - 4, edge + 4), (far - 4, far - 4), (edge + 4, far - 4)],
        }[shape]
        draw.polygon(corners, fill=fill, outline=255, width=pen)
    return mask.resize((_MARK_PX, _MARK_PX), Image.Resampling.BOX)


def _write_numbers(image: Image.Image, scale: TimeScale, highlights: Sequence[Highlight]) -> None:
    """Each highlight's number at the top of its band; where two would touch, the weaker goes lower or unnamed."""
    taken: list[tuple[int, float, float]] = []
    numbered = sorted(enumerate(highlights, start=1), key=lambda item: -item[1].score)
    for number, highlight in numbered:
        half = font(_SMALL).getlength(str(number)) / 2 + 2
        x = min(max(scale.x(highlight.span.middle_s), PLOT.left + half), PLOT.right - half)
        for row in (0, 1):
            if all(other != row or x + half <= left or right <= x - half for other, left, right in taken):
                taken.append((row, x - half, x + half))
                write(image, (x, PLOT.top + 16 + 13 * row), str(number), _SMALL, (0, 92, 66), "ms")
                break


# Words.


def _write_heading(image: Image.Image, plot: DetectionsPlot, scale: TimeScale) -> None:
    chosen_s = sum(highlight.span.duration_s for highlight in plot.highlights)
    length = clock(scale.duration_s, hours=scale.duration_s >= 3600)
    summary = [f"{length} long", f"{_counted(len(_kept(plot.candidates)), 'event')} shown"]
    if plot.highlights:
        summary.append(f"{_counted(len(plot.highlights), 'highlight')}, {chosen_s:.0f} s")
    text = "   ·   ".join(summary)
    write(image, (PLOT.right, _TITLE_BASELINE), text, _SMALL + 1, MUTED, "rs")
    room = PLOT.width - font(_SMALL + 1).getlength(text) - 30
    write(image, (PLOT.left, _TITLE_BASELINE), fitted(plot.title, _TITLE, room), _TITLE)


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def _write_legend(image: Image.Image, rules: Counter[str], plot: DetectionsPlot) -> None:
    draw = ImageDraw.Draw(image)
    y = _LEGEND_BASELINE - 4
    x = _entry(image, PLOT.left + 30, "level")
    draw.line((PLOT.left, y, PLOT.left + 12, y), fill=SLATE, width=2)
    draw.line((PLOT.left + 13, y, PLOT.left + 23, y), fill=BLUE, width=2)
    for dash in (0, 9, 18):
        draw.line((x + dash, y, x + dash + 5, y), fill=INK, width=2)
    x = _entry(image, x + 31, "threshold")
    if plot.highlights:
        draw.rectangle((x, y - 6, x + 16, y + 5), fill=(217, 240, 234))
        draw.rectangle((x, y - 6, x + 16, y - 4), fill=(51, 177, 143))
        x = _entry(image, x + 24, "highlight")
    kept = len(_kept(plot.candidates))
    if kept:
        draw.rectangle((x, y - 4, x + 13, y + 4), fill=BLUE)
        x = _entry(image, x + 21, f"kept ({kept})")
    if rules:
        _write_rules(image, _entry(image, x, "dropped:", gap_px=10), rules)


def _write_rules(image: Image.Image, x: int, rules: Counter[str]) -> None:
    """Every rule with its shape and count; long names give way, counts never do."""
    gap_px = 16
    room_px = (PLOT.right - x) // len(rules)
    for shape, (rule, count) in enumerate(rules.items()):
        _draw_mark(image, x + _MARK_PX // 2, _LEGEND_BASELINE - 4, shape)
        tally = f" ({count})"
        name_px = room_px - _MARK_PX - 6 - gap_px - font(_SMALL).getlength(tally)
        name = fitted(rule.replace("_", " "), _SMALL, name_px)
        x = _entry(image, x + _MARK_PX + 6, name + tally, gap_px)


def _entry(image: Image.Image, x: int, text: str, gap_px: int = 24) -> int:
    """A word of the legend; returns where the next may start."""
    write(image, (x, _LEGEND_BASELINE), text, _SMALL)
    return round(x + font(_SMALL).getlength(text) + gap_px)


def _say_when_empty(image: Image.Image, candidates: Sequence[Candidate]) -> None:
    """Said where the events would be, so that it hides nothing of the curve."""
    if _kept(candidates):
        return
    middle = (PLOT.left + PLOT.right) / 2
    if candidates:
        y = (KEPT_LANE.top + KEPT_LANE.bottom) / 2
        write(image, (middle, y), "No events: every candidate was dropped", _SMALL + 3, INK, "mm")
    else:
        y = (KEPT_LANE.top + DROPPED_LANE.bottom) / 2
        write(image, (middle, y), "No events found", _SMALL + 6, INK, "mm")
