"""What published files are called: after the recording, with the video's key where two would have one name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

# Leaves room for a number, an ending and what a hidden name adds, in the 255 bytes that file systems allow.
MOST_BYTES = 140

_ENDINGS = (".sheet.jpg", ".plot.png")
# What Windows and shares allow in no name; a disk moves from machine to machine.
_FORBIDDEN = re.compile(r'[<>:"/\\|?*]')
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_NUMBER = re.compile(r" \(\d+\)$")


def safe_name(stem: str, otherwise: str = "video") -> str:
    """A name that any file system takes, as near to the recording's as can be."""
    text = unicodedata.normalize("NFC", stem.encode("utf-8", "replace").decode("utf-8"))
    text = _FORBIDDEN.sub("-", "".join(char if char.isprintable() else "-" for char in text))
    text = text.encode()[:MOST_BYTES].decode("utf-8", "ignore").strip(" .")
    text = f"_{text}" if _DEVICES.fullmatch(text) else text
    return text or otherwise


def numbered(base: str, number: int) -> str:
    """`game`, `game (2)`, `game (3)`: what file managers call a second file."""
    return base if number == 1 else f"{base} ({number})"


def base_of(path: Path) -> str:
    """A published file's name without its ending, which may have two parts."""
    ending = next((one for one in _ENDINGS if path.name.endswith(one)), path.suffix)
    return path.name.removesuffix(ending)


def numbered_file(path: Path, number: int) -> Path:
    base = base_of(path)
    return path.with_name(numbered(base, number) + path.name.removeprefix(base))


@dataclass(frozen=True)
class Name:
    """After what the files are called; `distinct` is used where another recording would be called the same."""

    plain: str
    distinct: str
    has_namesake: bool = False

    def bases(self, recorded: str | None, plain_is_taken: bool) -> Iterator[str]:
        """Names to try, the best first. One that was given stays, unless the video should have another by now: its
        recording was renamed, or there is a key in its name and no need for it."""
        wanted = self.distinct if self.has_namesake or plain_is_taken else self.plain
        if recorded is not None and {recorded, _NUMBER.sub("", recorded)} & {self.plain, wanted}:
            yield recorded
        for number in count(1):
            yield numbered(wanted, number)
