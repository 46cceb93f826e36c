"""The boxes of an mp4 or mov file, read from its descriptor: a few bytes each, never more than is asked for.

What a file claims is believed only within bounds. Whatever is out of the ordinary is `Unusual`, and then libavformat
reads the file by itself: it knows every variant, and takes the memory for it.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from content_pipeline.errors import from_os_error
from content_pipeline.media.source import Source

MOST_BOXES = 1_000  # in one box
MOST_BYTES = 1 << 23  # of one box read whole


class Unusual(Exception):
    """This file is not of the plain kind that is understood here."""


@dataclass(frozen=True)
class Box:
    """A box of a file; `start` and `end` are those of its content."""

    source: Source
    kind: bytes
    start: int
    end: int

    def read(self, offset: int = 0, count: int | None = None) -> bytes:
        """`count` bytes of the content, or all that follows."""
        count = self.end - self.start - offset if count is None else count
        if count < 0 or count > MOST_BYTES or self.start + offset + count > self.end:
            raise Unusual
        try:
            data = os.pread(self.source.descriptor, count, self.start + offset)
        except OSError as error:
            raise from_os_error(error, self.source.path) from error
        if len(data) < count:
            raise Unusual
        return data

    def children(self) -> list[Box]:
        boxes: list[Box] = []
        position = self.start
        while position < self.end:
            if len(boxes) == MOST_BOXES:
                raise Unusual
            box = self._child(position)
            boxes.append(box)
            position = box.end
        return boxes

    def child(self, kind: bytes) -> Box:
        """The one child of this kind."""
        boxes = [box for box in self.children() if box.kind == kind]
        if len(boxes) != 1:
            raise Unusual
        return boxes[0]

    def find(self, kind: bytes) -> Box | None:
        return next((box for box in self.children() if box.kind == kind), None)

    def numbers(self, first: int, count: int, dtype: str) -> Any:
        """`count` numbers from byte `first` of the content on."""
        return np.frombuffer(self.read(first, count * np.dtype(dtype).itemsize), dtype)

    def _child(self, position: int) -> Box:
        head = Box(self.source, b"", position, self.end)
        size, kind = struct.unpack(">I4s", head.read(0, 8))
        start = position + 8
        if size == 1:
            (size,) = struct.unpack(">Q", head.read(8, 8))
            start += 8
        end = self.end if size == 0 else position + size
        if not start <= end <= self.end:
            raise Unusual
        return Box(self.source, kind, start, end)


def whole_file(source: Source) -> Box:
    return Box(source, b"", 0, source.signature.size_bytes)


def packed(kind: bytes, *contents: bytes) -> bytes:
    """A box around contents."""
    content = b"".join(contents)
    return struct.pack(">I4s", 8 + len(content), kind) + content
