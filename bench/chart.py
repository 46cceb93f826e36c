"""How much better than its baseline each thing is, on one scale, with a mark where the target lies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from content_pipeline.media.preview.canvas import GREEN, GRID, INK, MUTED, PAPER, VERMILION, as_png, fitted, write

if TYPE_CHECKING:
    from bench.measure import Row
    from bench.results import Results

NAMES_PX, SCALE_PX, FIGURES_PX = 520, 520, 110
LINE_PX, TEXT_PX, TOP_PX = 26, 15, 70
LOWEST, HIGHEST = 0.1, 1000.0


def chart(results: Results) -> bytes:
    rows = results.rows
    width, height = NAMES_PX + SCALE_PX + FIGURES_PX, TOP_PX + LINE_PX * len(rows) + 20
    image = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(image)
    write(image, (16, 28), "How much better than the baseline; the mark is the target", 18)
    for power in range(round(math.log10(LOWEST)), round(math.log10(HIGHEST)) + 1):
        at = _at(10.0**power)
        draw.line((at, TOP_PX - 8, at, height - 14), fill=MUTED if power == 0 else GRID)
        write(image, (at, TOP_PX - 14), f"{10.0**power:g}x", 13, MUTED, "ms")
    for number, row in enumerate(rows):
        _bar(image, draw, row, TOP_PX + LINE_PX * number)
    return as_png(image, 64)


def _bar(image: Image.Image, draw: ImageDraw.ImageDraw, row: Row, top: int) -> None:
    colour = GREEN if row.met else VERMILION
    left, right = sorted((_at(1.0), _at(row.ratio)))
    draw.rectangle((left, top + 5, right, top + LINE_PX - 8), fill=colour)
    target = _at(row.target)
    draw.line((target, top + 1, target, top + LINE_PX - 4), fill=INK, width=3)
    name = fitted(f"{row.name} ({row.against})", TEXT_PX, NAMES_PX - 32)
    write(image, (NAMES_PX - 16, top + LINE_PX - 9), name, TEXT_PX, INK, "rs")
    write(image, (NAMES_PX + SCALE_PX + 12, top + LINE_PX - 9), f"{row.ratio:.3g}x", TEXT_PX, colour)


def _at(ratio: float) -> float:
    """Pixels from the left; what is off the scale stands at its end."""
    bounded = min(max(ratio, LOWEST), HIGHEST)
    return NAMES_PX + SCALE_PX * math.log10(bounded / LOWEST) / math.log10(HIGHEST / LOWEST)
