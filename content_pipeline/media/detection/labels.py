"""A labels file: clips that lie beside it, and what a person found in each.

    {"clips": [{"file": "a.mp4", "fights": [[12.5, 31.0], [40.2, 44.9]], "source": "level 1"}]}

A clip without fights is a quiet one: whatever is found in it is false.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from content_pipeline.errors import BadLabels, printable
from content_pipeline.media.spans import Span

MOST_BYTES = 64 << 20
LONGEST_S = 1e6
LONGEST_NAME_BYTES = 1000


@dataclass(frozen=True)
class LabelledClip:
    """`source` names the recording a clip was cut from: what is tuned on one clip of it is not judged on another."""

    file: str
    fights: tuple[Span, ...]
    source: str

    @property
    def is_quiet(self) -> bool:
        return not self.fights


def read_labels(path: Path) -> tuple[LabelledClip, ...]:
    """The clips of a labels file, all of them there and inside its folder."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            raise BadLabels(f"{printable(path)} cannot be read: it is not a file")
        if status.st_size > MOST_BYTES:
            raise BadLabels(f"{printable(path)} is larger than {MOST_BYTES >> 20} MiB: it is not a labels file")
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadLabels(f"{printable(path)} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadLabels(f"{printable(path)} is not JSON: {printable(str(error))}") from error
    try:
        clips = clips_from_json(value)
        _check_files(clips, path.parent)
    except ValueError as error:
        raise BadLabels(f"{printable(path)}: {printable(str(error))}") from error
    return clips


def clips_from_json(value: Any) -> tuple[LabelledClip, ...]:
    """The clips that a labels file describes; ValueError says what is wrong with it."""
    listed = value.get("clips") if isinstance(value, dict) else None
    if not isinstance(listed, list) or not listed:
        raise ValueError('it has no clips: {"clips": [{"file": ..., "fights": [[start, end], ...]}]} is expected')
    clips = tuple(_clip(number, clip) for number, clip in enumerate(listed, start=1))
    times = Counter(os.path.normpath(clip.file) for clip in clips)
    twice = next((name for name in times if times[name] > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is listed twice")
    return clips


def _clip(number: int, value: Any) -> LabelledClip:
    if not isinstance(value, dict) or not isinstance(value.get("file"), str) or not value["file"]:
        raise ValueError(f"clip {number} has no file name")
    fights, source = value.get("fights"), value.get("source", value["file"])
    if not isinstance(fights, list) or not isinstance(source, str):
        raise ValueError(f"{value['file']} has no list of fights, or its source is not text")
    return LabelledClip(value["file"], tuple(_span(value["file"], fight) for fight in fights), source)


def _span(file: str, value: Any) -> Span:
    if isinstance(value, list) and len(value) == 2 and all(type(time_s) in (int, float) for time_s in value):
        start_s, end_s = value
        if 0 <= start_s < end_s <= LONGEST_S:  # nor does infinity, or what is no number, pass here
            return Span(float(start_s), float(end_s))
    raise ValueError(f"{file} has a fight that is not [start, end] in seconds: {json.dumps(value)[:60]}")


def _check_files(clips: tuple[LabelledClip, ...], folder: Path) -> None:
    for clip in clips:
        path = folder / clip.file
        if len(os.fsencode(clip.file)) > LONGEST_NAME_BYTES:
            raise ValueError(f"{clip.file[:60]}… is too long for a file name")
        if "\0" in clip.file or not path.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{clip.file} is not in the folder of the labels file")
        if not path.is_file():
            raise ValueError(f"{clip.file} does not exist")
