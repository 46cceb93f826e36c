from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from content_pipeline.system.root_marker import NAME, NotOurs, make_marker, read_marker


def test_a_marker_is_made_once(tmp_path: Path) -> None:
    assert read_marker(tmp_path) is None
    assert make_marker(tmp_path, "one") == "one"
    assert make_marker(tmp_path, "other") == "one"
    assert read_marker(tmp_path) == "one"
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_of_many_who_make_it_at_once_all_read_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda number: make_marker(tmp_path, f"id-{number}"), range(8)))) == 1
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("text", ["", "mine", "[]", '{"id": 3}', '{"id": ""}', '{"id": "' + "x" * 50 + '"}'])
def test_a_file_of_a_person_is_neither_read_nor_replaced(text: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(text)
    for use in (read_marker, lambda folder: make_marker(folder, "one")):
        with pytest.raises(NotOurs):
            use(tmp_path)
    assert (tmp_path / NAME).read_text() == text


def test_where_nothing_is_mounted_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_marker(tmp_path / "nowhere") is None
    assert read_marker(tmp_path / "file") is None
