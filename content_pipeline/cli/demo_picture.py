"""The picture of the demo's recording: a small space shooter, drawn frame by frame, the same every time."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

WIDTH, HEIGHT, FPS = 640, 360, 20
SPACE, HULL, GLOW, ENEMY = (9, 12, 28), (120, 205, 255), (255, 190, 90), (240, 95, 110)
BLAST_S = 0.5


def frames(seconds: float, shots_s: Sequence[float]) -> Iterator[Image.Image]:
    """Every frame; the ship fires and something bursts at each moment of `shots_s`."""
    from PIL import Image, ImageDraw

    stars = _stars()
    targets = _targets(shots_s)
    for number in range(int(seconds * FPS)):
        time_s = number / FPS
        image = Image.new("RGB", (WIDTH, HEIGHT), SPACE)
        draw = ImageDraw.Draw(image)
        _draw_stars(draw, stars, time_s)
        _draw_enemies(draw, targets, time_s)
        _draw_shots(draw, targets, time_s)
        _draw_ship(draw, *_ship_at(time_s))
        hits = sum(shot_s <= time_s for shot_s, _, _ in targets)
        draw.text((12, 10), f"SCORE {hits * 50:05d}", fill=HULL)
        draw.text((WIDTH - 60, 10), f"{int(time_s) // 60}:{int(time_s) % 60:02d}", fill=HULL)
        yield image


def _stars() -> list[tuple[float, float, float]]:
    chance = random.Random(1)
    return [(chance.uniform(0, WIDTH), chance.uniform(0, HEIGHT), chance.uniform(0.2, 1.0)) for _ in range(90)]


def _targets(shots_s: Sequence[float]) -> list[tuple[float, float, float]]:
    """When and where something is hit."""
    chance = random.Random(2)
    return [(shot_s, chance.uniform(380, 600), chance.uniform(50, 310)) for shot_s in shots_s]


def _ship_at(time_s: float) -> tuple[float, float]:
    return 110 + 30 * math.sin(time_s * 0.7), HEIGHT / 2 + 90 * math.sin(time_s * 0.9)


def _draw_stars(draw: ImageDraw.ImageDraw, stars: list[tuple[float, float, float]], time_s: float) -> None:
    for x, y, depth in stars:
        left = (x - time_s * 120 * depth) % WIDTH
        grey = int(70 + 170 * depth)
        draw.line((left, y, left + 6 * depth, y), fill=(grey, grey, grey))


def _draw_enemies(draw: ImageDraw.ImageDraw, targets: list[tuple[float, float, float]], time_s: float) -> None:
    """Each target flies in for two seconds before it is hit."""
    for shot_s, x, y in targets:
        ahead_s = shot_s - time_s
        if 0 <= ahead_s < 2:
            left = x + ahead_s * 140
            draw.polygon(
                ((left, y - 9), (left + 22, y - 4), (left + 22, y + 4), (left, y + 9), (left + 7, y)), fill=ENEMY
            )


def _draw_shots(draw: ImageDraw.ImageDraw, targets: list[tuple[float, float, float]], time_s: float) -> None:
    for shot_s, x, y in targets:
        since_s = time_s - shot_s
        if -0.12 <= since_s < 0:
            ship_x, ship_y = _ship_at(time_s)
            draw.line((ship_x + 24, ship_y, x, y), fill=GLOW, width=2)
        elif 0 <= since_s < BLAST_S:
            size = 8 + 60 * since_s
            fade = 1 - since_s / BLAST_S
            outer = tuple(int(back + (front - back) * fade) for back, front in zip(SPACE, GLOW, strict=True))
            draw.ellipse((x - size, y - size, x + size, y + size), outline=outer, width=3)
            draw.ellipse((x - size / 2, y - size / 2, x + size / 2, y + size / 2), fill=outer)


def _draw_ship(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
    draw.polygon(((x - 18, y - 12), (x + 24, y), (x - 18, y + 12), (x - 9, y)), fill=HULL)
    draw.polygon(((x - 20, y - 5), (x - 34, y), (x - 20, y + 5)), fill=GLOW)
