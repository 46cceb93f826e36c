"""A picture made so small that it can be kept wherever its file is spoken of."""

from __future__ import annotations

import io

from PIL import Image

MOST_BYTES = 3000
_WIDTHS_PX = (480, 400, 320, 240, 160)
_QUALITY = 30


def thumbnail(picture: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """The picture as WebP, as large as fits into so many bytes; the smallest there is when none does."""
    with Image.open(io.BytesIO(picture)) as opened:
        whole = opened.convert("RGB")
    encoded = b""
    for width in _WIDTHS_PX:
        small = whole.copy()
        small.thumbnail((width, width))
        encoded = _as_webp(small)
        if len(encoded) <= most_bytes:
            break
    return encoded


def _as_webp(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=_QUALITY)
    return buffer.getvalue()
