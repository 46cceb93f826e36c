"""What an asset shows of its result is in words, and nothing that is empty is shown."""

from __future__ import annotations

from content_pipeline.defs.assets.common import listed, tally


def test_counts_are_told_in_words_the_most_first() -> None:
    assert tally("dropped", {"too_short": 1, "segment_limit": 3}) == {"dropped": "3 segment limit, 1 too short"}


def test_nothing_is_said_of_what_there_is_none_of() -> None:
    assert tally("dropped", {}) == {}
    assert listed("notes", ()) == {}


def test_notes_are_one_line_whatever_the_names_in_them() -> None:
    assert listed("notes", ["kept a\nb.mp4.", "removed c."]) == {"notes": "kept a\\nb.mp4. removed c."}
