"""What a place is called, however it was typed."""

import os
from pathlib import Path

import pytest

from content_pipeline.library.keys import canonical_path


@pytest.mark.parametrize("typed", ["games", "./games", "../here/games", "games/../games/", "gone/../games"])
def test_a_folder_has_one_name_however_it_is_typed(typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "games").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert canonical_path(Path(typed)) == tmp_path / "here" / "games"


def test_a_folder_that_is_away_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical_path(Path("x/../not-mounted")) == tmp_path / "not-mounted"


def test_two_dots_behind_a_link_lead_where_the_system_leads(tmp_path: Path) -> None:
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "far" / "games").mkdir()
    (tmp_path / "games").mkdir()
    os.symlink(tmp_path / "far" / "deep", tmp_path / "link")
    assert canonical_path(tmp_path / "link" / ".." / "games").samefile(tmp_path / "far" / "games")
