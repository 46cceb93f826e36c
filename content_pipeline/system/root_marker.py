"""A hidden file with an id in a folder of shared storage: who reads the same id sees the same files."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path

from content_pipeline.system.atomic_write import fsync
from content_pipeline.system.filesystem import move_without_replacing

NAME = ".content-ai-root"
_NOTE = "content-ai knows this storage by this file, on every host. Leave it here."
_MOST_BYTES = 4096


class NotOurs(Exception):
    """A file of this name is there that is no marker."""


def read_marker(folder: Path) -> str | None:
    """The id; None where there is none, be it that nothing is mounted."""
    try:
        with (folder / NAME).open("rb") as opened:
            text = opened.read(_MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(text)["id"]
    except (ValueError, KeyError, TypeError):
        raise NotOurs(str(folder / NAME)) from None
    if not isinstance(found, str) or not 0 < len(found) <= 40:
        raise NotOurs(str(folder / NAME))
    return found


def make_marker(folder: Path, new_id: str) -> str:
    """The id of the marker that is there; if there is none, one with the new id is made. Two at once agree."""
    found = read_marker(folder)
    if found is not None:
        return found
    staging = folder / f"{NAME}.{secrets.token_hex(4)}.part"
    try:
        with staging.open("x", encoding="utf-8") as writing:
            writing.write(json.dumps({"id": new_id, "note": _NOTE}) + "\n")
            writing.flush()
            os.fsync(writing.fileno())
        staging.chmod(0o644)  # hosts may come with different users
        with contextlib.suppress(FileExistsError):  # somebody was faster: theirs is read
            move_without_replacing(staging, folder / NAME)
    finally:
        staging.unlink(missing_ok=True)
    fsync(folder)
    made = read_marker(folder)
    if made is None:
        raise FileNotFoundError(str(folder / NAME))
    return made
