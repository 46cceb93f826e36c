"""What published files are called."""

from itertools import islice
from pathlib import Path

import pytest

from content_pipeline.publishing.names import MOST_BYTES, Name, base_of, numbered_file, safe_name


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("game", "game"),
        ("Boss fight 2", "Boss fight 2"),
        ("Überfall 游戏", "Überfall 游戏"),
        ("u\u0308ber", "über"),
        ("a/b\\c:d*e?f", "a-b-c-d-e-f"),
        ("line\nbreak\x1b[31m", "line-break-[31m"),
        (".hidden. ", "hidden"),
        ("...", "video"),
        ("con", "_con"),
        ("NUL.txt", "_NUL.txt"),
        ("console", "console"),
        ("caf\udce9", "caf-"),
        ("-rf", "-rf"),
    ],
)
def test_a_name_is_the_recordings_as_far_as_any_file_system_takes_it(stem: str, expected: str) -> None:
    assert safe_name(stem) == expected


@pytest.mark.parametrize("letter", ["x", "ü", "游", "🎮"])
def test_a_name_fits_with_all_that_is_added_to_it(letter: str) -> None:
    name = safe_name(letter * 300)
    assert set(name) == {letter} and len(name.encode()) <= MOST_BYTES


def test_endings_of_two_parts_stay_whole() -> None:
    assert base_of(Path("/o/game.sheet.jpg")) == "game"
    assert numbered_file(Path("/o/game.sheet.jpg"), 2) == Path("/o/game (2).sheet.jpg")
    assert numbered_file(Path("/o/a.b.mp4"), 3) == Path("/o/a.b (3).mp4")
    assert numbered_file(Path("/o/game.mp4"), 1) == Path("/o/game.mp4")


@pytest.mark.parametrize(
    ("name", "recorded", "taken", "expected"),
    [
        (Name("game", "key"), None, False, ["game", "game (2)"]),
        (Name("game", "key"), None, True, ["key", "key (2)"]),
        (Name("game", "key", True), None, False, ["key", "key (2)"]),
        (Name("game", "key", True), "game", False, ["game", "key"]),  # given before its namesake came
        (Name("game", "key"), "game (3)", False, ["game (3)", "game"]),
        (Name("game (3)", "key"), "game (3)", False, ["game (3)", "game (3)"]),
        (Name("game", "key"), "key", False, ["game", "game (2)"]),  # called after its key once
        (Name("game", "key", True), "key", False, ["key", "key"]),
        (Name("boss", "key"), "game", False, ["boss", "boss (2)"]),  # the recording was renamed
    ],
)
def test_a_name_that_was_given_stays_while_it_fits(
    name: Name, recorded: str | None, taken: bool, expected: list[str]
) -> None:
    assert list(islice(name.bases(recorded, taken), 2)) == expected
