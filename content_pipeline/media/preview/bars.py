"""A picture of a few named amounts: one horizontal bar each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from content_pipeline.media.preview.canvas import BLUE, GRID, INK, MUTED, PAPER, as_png, fitted, write

WIDTH_PX, ROW_PX, TOP_PX, MARGIN_PX = 640, 44, 64, 20
TEXT_PX, TITLE_PX = 16, 20
MOST_BARS = 8


class Bar(NamedTuple):
    """`note` is written behind the bar."""

    name: str
    amount: float
    note: str


def draw_bars(title: str, bars: Sequence[Bar]) -> bytes:
    """A PNG. Of more bars than fit, the first are shown, and how many are not."""
    shown, left = bars[:MOST_BARS], len(bars) - MOST_BARS
    rows = max(1, len(shown)) + (left > 0)
    image = Image.new("RGB", (WIDTH_PX, TOP_PX + rows * ROW_PX + MARGIN_PX), PAPER)
    write(image, (MARGIN_PX, TOP_PX - 28), fitted(title, TITLE_PX, WIDTH_PX - 2 * MARGIN_PX), TITLE_PX, INK)
    most = max((bar.amount for bar in shown), default=0.0)
    for number, bar in enumerate(shown):
        _draw_bar(image, bar, TOP_PX + number * ROW_PX, most)
    if left > 0:
        write(image, (MARGIN_PX, TOP_PX + len(shown) * ROW_PX + 20), f"and {left} more", TEXT_PX, MUTED)
    return as_png(image, colours=16)


def _draw_bar(image: Image.Image, bar: Bar, top: int, most: float) -> None:
    room = WIDTH_PX - 2 * MARGIN_PX
    write(image, (MARGIN_PX, top + 14), fitted(f"{bar.name} ({bar.note})", TEXT_PX, room), TEXT_PX, INK)
    length = round(room * bar.amount / most) if most else 0
    draw = ImageDraw.Draw(image)
    draw.rectangle((MARGIN_PX, top + 21, MARGIN_PX + room, top + 33), fill=GRID)
    if length:
        draw.rectangle((MARGIN_PX, top + 21, MARGIN_PX + length, top + 33), fill=BLUE)
