"""Opening a file below a folder, whatever happens to the folders between the two meanwhile.

A path that was checked and is then opened may lead elsewhere: in between, a folder can be swapped for a link. So the
root is opened first, and from there one folder after the other, none of them through a link. Links that stay inside
the root are resolved before; one that appears on the way is noticed, and the path looked at anew.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from content_pipeline.errors import UnsafePath, from_os_error, printable

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A folder is only gone through: where the system can say so, the right to read it is not needed.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_LOOKS = 10


def open_file(path: Path) -> int:
    """A descriptor of the file that a path leads to."""
    try:
        return os.open(os.path.realpath(path), _FILE)
    except OSError as error:
        raise from_os_error(error, path) from error


def open_beneath(path: Path, root: Path) -> int:
    """A descriptor of the file that a path leads to, if that lies below `root`."""
    try:
        base = os.open(root, _FOLDER)
        try:
            return _opened(base, path, root)
        finally:
            os.close(base)
    except OSError as error:
        raise from_os_error(error, path) from error


def _opened(base: int, path: Path, root: Path) -> int:
    for _ in range(_MOST_LOOKS - 1):
        with suppress(OSError):  # perhaps a folder was being swapped; if it is no better the last time, that is it
            return _opened_step_by_step(base, _inside(path, root).parts)
    return _opened_step_by_step(base, _inside(path, root).parts)


def _inside(path: Path, root: Path) -> Path:
    """The path from the root on, with all links resolved."""
    real, real_root = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    if not real.is_relative_to(real_root) or real == real_root:
        raise UnsafePath(f"{printable(path)} points outside {printable(root)}")
    return real.relative_to(real_root)


def _opened_step_by_step(base: int, parts: Sequence[str]) -> int:
    folder = base
    try:
        for part in parts[:-1]:
            following = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            if folder != base:
                os.close(folder)
            folder = following
        return os.open(parts[-1], _FILE, dir_fd=folder)
    finally:
        if folder != base:
            os.close(folder)
