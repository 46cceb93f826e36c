"""The JSON beside a montage: its cuts, and by what any state folder knows that it is no recording."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from content_pipeline.artifacts import to_json
from content_pipeline.publishing.names import numbered_file

MADE_BY = "content-ai"
# What the side-car of an earlier version held, without a word of who made it.
_FORMER_KEYS = {"cuts", "duration_s", "mode"}
MOST_BYTES = 16 << 20


def sidecar(document: Mapping[str, Any], owner: str, sha256: str, size_bytes: int) -> bytes:
    about = {"made_by": MADE_BY, "key": owner, "sha256": sha256, "bytes": size_bytes}
    return to_json({**document, **about}).encode()


def is_montage(path: Path) -> bool:
    """Whether a file is one that was published here, by what lies beside it; of the file itself nothing is read.

    Where a person has changed the side-car, ours has a number.
    """
    return any(_speaks_of(file.with_suffix(".json"), path) for file in (path, numbered_file(path, 2)))


def _speaks_of(sidecar: Path, montage: Path) -> bool:
    try:
        with sidecar.open("rb") as file:
            document = json.loads(file.read(MOST_BYTES))
        if not isinstance(document, dict):
            return False
        if document.get("made_by") == MADE_BY:
            return bool(document.get("bytes") == montage.stat().st_size)
    except (OSError, ValueError, RecursionError):
        return False
    return document.keys() >= _FORMER_KEYS
