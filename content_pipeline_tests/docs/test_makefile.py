"""`make clean` removes build products; what was made from recordings goes only when a person says so."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = (".venv", "dist", ".pytest_cache", "content_pipeline/__pycache__")
MADE = (".content-ai/queue.db", "output/game.mp4", "demo/montages/bangs.mp4")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in BUILD:
        (tmp_path / folder).mkdir(parents=True)
    for file in MADE:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("mine")
    return tmp_path


def make(checkout: Path, *arguments: str, answer: str | None = None) -> subprocess.CompletedProcess[str]:
    """With `answer`, at a terminal; else without one."""
    if answer is None:
        return subprocess.run(
            ["make", *arguments], cwd=checkout, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        return subprocess.run(
            ["make", *arguments], cwd=checkout, stdin=theirs, capture_output=True, text=True, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)


def there(checkout: Path, names: tuple[str, ...]) -> set[str]:
    return {name for name in names if (checkout / name).exists()}


def test_clean_removes_build_products_only(checkout: Path) -> None:
    assert make(checkout, "clean").returncode == 0
    assert there(checkout, BUILD) == set()
    assert there(checkout, MADE) == set(MADE)


def test_distclean_without_a_terminal_says_how_and_deletes_nothing(checkout: Path) -> None:
    refused = make(checkout, "distclean")
    assert refused.returncode != 0
    assert "make distclean YES=1" in refused.stdout
    assert there(checkout, BUILD + MADE) == {*BUILD, *MADE}


@pytest.mark.parametrize("answer", ["no", "y", ""])
def test_distclean_takes_only_a_whole_yes(checkout: Path, answer: str) -> None:
    assert make(checkout, "distclean", answer=answer).returncode != 0
    assert there(checkout, BUILD + MADE) == {*BUILD, *MADE}


def test_distclean_deletes_what_was_made_once_a_person_says_so(checkout: Path) -> None:
    assert make(checkout, "distclean", answer="yes").returncode == 0
    assert there(checkout, BUILD + MADE) == set()


def test_distclean_never_follows_the_output_folder_of_another_command(checkout: Path) -> None:
    elsewhere = checkout / "videos"
    elsewhere.mkdir()
    assert make(checkout, "distclean", "YES=1", f"OUTPUT={elsewhere}").returncode == 0
    assert elsewhere.is_dir()
