"""The Python API: what docs/python.md shows is run, and so is every example."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import content_pipeline
from content_pipeline_tests.helpers import samples

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "python.md"
SOON = "import os\nos.environ['CONTENT_AI_LIBRARY__SETTLE_S'] = '0'\n"


@pytest.fixture
def folder(tmp_path: Path, samples_folder: Path) -> Path:
    recording = samples.recording(samples_folder, "bursts.mp4", seconds=16, bursts=((3, 4), (8, 9), (13, 14)))
    (tmp_path / "videos").mkdir()
    shutil.copy(recording, tmp_path / "videos" / "game.mp4")
    return tmp_path


def run(folder: Path, *arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_runs_from_top_to_bottom(folder: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    said = run(folder, "-c", SOON + "\n".join(blocks))
    assert "game.mp4 succeeded" in said
    assert "succeeded    1" in said


def test_the_examples_run(folder: Path) -> None:
    examples = ROOT / "examples"
    assert "game.mp4 succeeded" in run(folder, examples / "process_a_folder.py", "videos", "montages")
    assert "1 succeeded" in run(folder, examples / "watch_a_queue.py")
    (line,) = run(folder, examples / "highlights_per_hour.py").splitlines()
    name, rate, bar = line.split()
    assert (name, bar) == ("game.mp4", "#" * 40) and float(rate) > 0


def test_every_example_is_run_here_and_named_on_the_page() -> None:
    names = {path.name for path in (ROOT / "examples").glob("*.py")}
    here = Path(__file__).read_text()
    assert {name for name in names if f'"{name}"' in here and name in PAGE.read_text()} == names


def test_every_public_name_can_be_had_and_is_on_the_page() -> None:
    page = PAGE.read_text()
    for name in content_pipeline.__all__:
        assert getattr(content_pipeline, name) is not None
    documented = {name for name in content_pipeline.__all__ if name in page}
    assert documented >= set(content_pipeline.__all__) - {"Job", "Lease", "Manifest", "Outcome", "Settings"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        content_pipeline.no_such_thing  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("dagster", "pandas", "sqlalchemy", "numpy", "av", "pydantic")
    code = f"import sys, content_pipeline; print([name for name in {heavy!r} if name in sys.modules])"
    assert run(ROOT, "-c", code).strip() == "[]"


def test_the_tables_of_an_empty_folder_have_their_columns(tmp_path: Path) -> None:
    results = content_pipeline.Results(content_pipeline.load_settings(state_dir=tmp_path / "state"))
    for table in (results.highlights(), results.jobs(), results.costs()):
        assert table.empty and "job_id" in table.columns
    assert not (tmp_path / "state").exists()
