"""What every picture shares: colours, text that any file name can be put through, and times."""

from __future__ import annotations

import io
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont


Colour = tuple[int, int, int]

# Blue, vermilion and green of Okabe and Ito: apart from each other for every kind of colour vision.
BLUE: Colour = (0, 114, 178)
VERMILION: Colour = (213, 94, 0)
GREEN: Colour = (0, 158, 115)
PAPER: Colour = (255, 255, 255)
INK: Colour = (31, 41, 51)
MUTED: Colour = (97, 110, 124)
SLATE: Colour = (98, 114, 130)
MIST: Colour = (182, 192, 203)
GRID: Colour = (229, 232, 236)

_LONGEST_TEXT = 400
_UNASSIGNED = "\U0010ffff"


class Rectangle(NamedTuple):
    """A rectangle in pixels, `right` and `bottom` outside."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top


@cache
def font(size_px: int) -> FreeTypeFont:
    """Pillow's own scalable font: the same letters on every machine."""
    loaded = ImageFont.load_default(size_px)
    if not isinstance(loaded, ImageFont.FreeTypeFont):
        raise RuntimeError("Pillow was built without FreeType; install a wheel of it")
    return loaded


def drawable(text: str) -> str:
    """`text` on one line, with `?` for what is unprintable or has no letter in the font."""
    if len(text) > _LONGEST_TEXT:
        text = f"{text[: _LONGEST_TEXT // 2]}…{text[-_LONGEST_TEXT // 2 :]}"
    return "".join(map(_stand_in, unicodedata.normalize("NFC", text)))


@lru_cache(maxsize=4096)
def _stand_in(char: str) -> str:
    """The character, its plain form (a hyphen for any dash, a letter without its accent), or `?`."""
    plain = "-" if unicodedata.category(char) == "Pd" else unicodedata.normalize("NFKD", char)[0]
    return next((form for form in (char, plain) if _has_glyph(form)), "?")


def _has_glyph(char: str) -> bool:
    return char.isprintable() and _glyph(char) != _glyph(_UNASSIGNED)


def _glyph(char: str) -> tuple[tuple[int, int], bytes]:
    mask = font(16).getmask(char)
    return mask.size, bytes(mask)


def fitted(text: str, size_px: int, width_px: float) -> str:
    """Drawable text, shortened in its middle where it is too wide: both ends of a file name tell something."""
    text = drawable(text)
    if font(size_px).getlength(text) <= width_px:
        return text
    shortest, longest = 0, len(text)
    while shortest < longest:
        kept = (shortest + longest + 1) // 2
        if font(size_px).getlength(_without_middle(text, kept)) <= width_px:
            shortest = kept
        else:
            longest = kept - 1
    return _without_middle(text, shortest)


def _without_middle(text: str, kept: int) -> str:
    tail = kept // 3
    return f"{text[: kept - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def clock(seconds: float, *, hours: bool, decimals: int = 0) -> str:
    """`1:05`, `1:05.2` or, with hours, `0:01:05`."""
    units = 10**decimals
    whole, fraction = divmod(round(max(0.0, seconds) * units), units)
    minutes, second = divmod(whole, 60)
    text = f"{minutes // 60}:{minutes % 60:02}:{second:02}" if hours else f"{minutes}:{second:02}"
    return f"{text}.{fraction:0{decimals}}" if decimals else text


def write(
    image: Image.Image,
    position: tuple[float, float],
    text: str,
    size_px: int,
    colour: Colour = INK,
    anchor: str = "ls",
) -> None:
    """Put drawable text at `position`; by default its baseline's left end."""
    ImageDraw.Draw(image).text(position, text, fill=colour, font=font(size_px), anchor=anchor)


def as_png(image: Image.Image, colours: int) -> bytes:
    """A palette PNG: flat pictures lose nothing to the eye and take a third of the bytes."""
    flat = image.quantize(colours, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    _with_white_paper(flat).save(buffer, "PNG")
    return buffer.getvalue()


def _with_white_paper(flat: Image.Image) -> Image.Image:
    """Octree averages the paper with the palest edges of letters: a shade too dark, seen next to a white page."""
    palette = flat.getpalette() or []
    paper = flat.tobytes()[0]
    palette[3 * paper : 3 * paper + 3] = PAPER
    flat.putpalette(palette)
    return flat


def as_jpeg(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, optimize=True, progressive=True)
    return buffer.getvalue()
