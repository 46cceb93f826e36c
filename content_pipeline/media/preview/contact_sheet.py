"""The contact sheet: one picture per highlight, with its number and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PIL import Image

from content_pipeline.errors import NoPicture, printable
from content_pipeline.media.preview.canvas import Rectangle, as_jpeg, clock, fitted, font, write
from content_pipeline.media.preview.stills import Still, stills

if TYPE_CHECKING:
    from content_pipeline.media.preview.canvas import Colour
    from content_pipeline.media.probe import MediaInfo, VideoTrack
    from content_pipeline.media.source import Source
    from content_pipeline.media.spans import Scene, Span

MOST_STILLS = 12
_MARGIN_PX = 12
_CAPTION_PX = 26
_QUALITY = 82
_TEXT = 14

_BACKGROUND: Colour = (22, 26, 31)
_TILE: Colour = (10, 12, 15)
_UNREADABLE: Colour = (78, 86, 95)
_WORDS: Colour = (236, 239, 243)
_ASIDE: Colour = (150, 160, 171)
_NUMBER: Colour = (92, 205, 170)


def contact_sheet(
    source: Source, info: MediaInfo, scenes: Sequence[Scene], columns: int = 4, thumb_width: int = 320
) -> bytes:
    """A JPEG of the first twelve highlights, numbered in the order given, as on the detections plot.

    A highlight whose pictures are damaged gets a grey tile that says so. JPEG, because game pictures
    take a tenth of the bytes they take as PNG.
    """
    if info.video is None:
        raise NoPicture(f"{printable(source.path)} holds no picture to show")
    tile = (thumb_width, _tile_height(info.video, thumb_width))
    shown = scenes[:MOST_STILLS]
    pictures = stills(source, info, shown, tile) if shown else []
    sheet, boxes = _blank_sheet(len(shown), columns, tile, left_out=len(scenes) - len(shown))
    for number, (scene, picture, box) in enumerate(zip(shown, pictures, boxes, strict=True), start=1):
        _place_picture(sheet, picture, box)
        _write_caption(sheet, number, scene.span, picture, box, hours=info.duration_s >= 3600)
    return as_jpeg(sheet, _QUALITY)


def _tile_height(video: VideoTrack, width: int) -> int:
    """The picture's own shape; upright and very wide ones get a box that keeps the sheet handy."""
    sides = (video.width, video.height) if video.rotation_degrees % 180 == 0 else (video.height, video.width)
    return round(min(1.0, max(0.4, sides[1] / max(1, sides[0]))) * width)


def _blank_sheet(count: int, columns: int, tile: tuple[int, int], left_out: int) -> tuple[Image.Image, list[Rectangle]]:
    across = max(1, min(columns, count))
    down = max(1, -(-count // across))
    step_x, step_y = tile[0] + _MARGIN_PX, tile[1] + _CAPTION_PX + _MARGIN_PX
    footer = _CAPTION_PX if left_out else 0
    sheet = Image.new("RGB", (across * step_x + _MARGIN_PX, down * step_y + _MARGIN_PX // 2 + footer), _BACKGROUND)
    boxes = [
        Rectangle(left, top, left + tile[0], top + tile[1])
        for index in range(count)
        for left, top in [(_MARGIN_PX + index % across * step_x, _MARGIN_PX + index // across * step_y)]
    ]
    if not count:
        write(sheet, (sheet.width / 2, sheet.height / 2), "No highlights", _TEXT + 4, _ASIDE, "mm")
    if left_out:
        write(sheet, (_MARGIN_PX, sheet.height - _MARGIN_PX), f"and {left_out} more", _TEXT, _ASIDE)
    return sheet, boxes


def _place_picture(sheet: Image.Image, picture: Still | None, box: Rectangle) -> None:
    sheet.paste(_UNREADABLE if picture is None else _TILE, box)
    if picture is None:
        middle = ((box.left + box.right) / 2, (box.top + box.bottom) / 2)
        write(sheet, middle, fitted("unreadable", _TEXT + 2, box.width), _TEXT + 2, _WORDS, "mm")
        return
    left = box.left + (box.width - picture.image.width) // 2
    top = box.top + (box.height - picture.image.height) // 2
    sheet.paste(picture.image, (left, top))


def _write_caption(
    sheet: Image.Image, number: int, span: Span, picture: Still | None, box: Rectangle, *, hours: bool
) -> None:
    baseline = box.bottom + 18
    write(sheet, (box.left, baseline), str(number), _TEXT, _NUMBER)
    left = box.left + font(_TEXT).getlength(f"{number}") + 10
    start = clock(span.start_s, hours=hours)
    write(sheet, (left, baseline), start, _TEXT, _WORDS)
    aside = f"{span.duration_s:.1f} s"
    if picture is not None and not span.start_s <= picture.at_s < span.end_s:
        aside = f"{aside}, picture of {clock(picture.at_s, hours=hours)}"
    room = box.right - left - font(_TEXT).getlength(start) - 10
    write(sheet, (box.right, baseline), fitted(aside, _TEXT, room), _TEXT, _ASIDE, "rs")
