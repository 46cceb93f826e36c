from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.errors import BadLabels
from content_pipeline.media.detection.labels import LabelledClip, read_labels
from content_pipeline.media.spans import Span


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "labelled"
    (inside / "deeper").mkdir(parents=True)
    for name in ("a.mp4", "deeper/b.mp4", "../outside.mp4"):
        (inside / name).write_bytes(b"x")
    (inside / "link.mp4").symlink_to(tmp_path / "outside.mp4")
    return inside


def write(folder: Path, value: Any) -> Path:
    path = folder / "labels.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_clips_are_read_with_their_fights_and_their_source(folder: Path) -> None:
    clips = [{"file": "a.mp4", "fights": [[1, 2.5]], "source": "level 1", "group": "real"}]
    clips += [{"file": "deeper/b.mp4", "fights": []}]

    first, second = read_labels(write(folder, {"clips": clips}))

    assert first == LabelledClip("a.mp4", (Span(1.0, 2.5),), "level 1")
    assert second == LabelledClip("deeper/b.mp4", (), "deeper/b.mp4")
    assert (first.is_quiet, second.is_quiet) == (False, True)


def clip(file: str = "a.mp4", fights: Any = ()) -> dict[str, Any]:
    return {"clips": [{"file": file, "fights": list(fights) if isinstance(fights, tuple) else fights}]}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "has no clips"),
        ({"clips": []}, "has no clips"),
        ({"clips": ["a.mp4"]}, "clip 1 has no file name"),
        ({"clips": [{"file": 7, "fights": []}]}, "clip 1 has no file name"),
        (clip(fights="none"), "a.mp4 has no list of fights"),
        (clip(fights=(3,)), "not [start, end] in seconds: 3"),
        (clip(fights=([1, 2, 3],)), "not [start, end] in seconds"),
        (clip(fights=([5, 2],)), "not [start, end] in seconds"),
        (clip(fights=([-1, 2],)), "not [start, end] in seconds"),
        ('{"clips": [{"file": "a.mp4", "fights": [[NaN, 2]]}]}', "not [start, end] in seconds"),
        (clip(fights=([1, 10**400],)), "not [start, end] in seconds"),
        (clip("a" * 5000), "too long for a file name"),
        ({"clips": clip()["clips"] * 2}, "a.mp4 is listed twice"),
        ({"clips": [*clip()["clips"], *clip("./a.mp4")["clips"]]}, "a.mp4 is listed twice"),
        (clip("gone.mp4"), "gone.mp4 does not exist"),
        (clip("deeper"), "deeper does not exist"),
        (clip("../outside.mp4"), "is not in the folder"),
        (clip("link.mp4"), "is not in the folder"),
        (clip("/etc/hostname"), "is not in the folder"),
        (clip("a\0.mp4"), "is not in the folder"),
    ],
)
def test_a_labels_file_that_cannot_be_used_is_refused_in_one_line(folder: Path, value: Any, said: str) -> None:
    with pytest.raises(BadLabels) as refused:
        read_labels(write(folder, value))

    assert said in str(refused.value)
    assert "labels.json" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_labels_file_that_is_not_there_or_not_text_is_refused(folder: Path) -> None:
    with pytest.raises(BadLabels, match="No such file"):
        read_labels(folder / "nowhere.json")
    with pytest.raises(BadLabels, match="it is not a file"):
        read_labels(folder)
    os.mkfifo(folder / "pipe.json")
    with pytest.raises(BadLabels, match="it is not a file"):
        read_labels(folder / "pipe.json")
    (folder / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadLabels, match="is not JSON"):
        read_labels(folder / "bytes.json")
