"""How counts, lengths and long names are put."""

from __future__ import annotations

import pytest

from content_pipeline.cli.printing import counted, lasting, shortened


def test_one_is_not_many() -> None:
    assert [counted(number, "video") for number in (0, 1, 2)] == ["0 videos", "1 video", "2 videos"]
    assert [counted(number, "history entry") for number in (1, 2)] == ["1 history entry", "2 history entries"]


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0 s"), (30, "30 s"), (168, "2.8 min"), (3599, "60.0 min"), (5400, "1.5 h")]
)
def test_a_length_is_told_in_a_unit_that_fits_it(seconds: float, told: str) -> None:
    assert lasting(seconds) == told


@pytest.mark.parametrize("most", [1, 2, 3, 8, 9])
def test_a_name_that_is_too_long_keeps_its_ends_and_fills_the_room(most: int) -> None:
    short = shortened("abcdefghij", most)
    assert len(short) == most
    before, after = short.split("…")
    assert "abcdefghij".startswith(before) and "abcdefghij".endswith(after)
    assert shortened("abcdefghij", 10) == "abcdefghij"
