"""The wheel, as a stranger gets it: installed far from the checkout, it makes a montage."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CONTENT_AI_", "PYTHONPATH"))}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_what_it_reads_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"content_pipeline"}
    wanted = ("dagster.yaml", "workspace.yaml", "py.typed", "manifest/migrations/versions/0001_videos.py")
    assert {f"content_pipeline/{name}" for name in wanted} <= set(names)
    assert any(name.endswith("/LICENSE") for name in names)


def test_installed_from_the_wheel_the_demo_makes_a_montage(wheel: Path, tmp_path: Path) -> None:
    """The other packages are those of this environment, lent by a .pth file: nothing is downloaded."""
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=tmp_path)
    python = venv / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=tmp_path
    )
    (site,) = (venv / "lib").glob("python*/site-packages")
    lent = [path for path in sys.path if path.endswith("site-packages")]
    (site / "lent.pth").write_text("\n".join(lent))

    where = run(python, "-c", "import content_pipeline; print(content_pipeline.__file__)", cwd=tmp_path)
    assert where.strip() == str(site / "content_pipeline" / "__init__.py")
    assert "content-ai, version" in run(venv / "bin" / "content-ai", "--version", cwd=tmp_path)
    run(venv / "bin" / "content-ai", "demo", cwd=tmp_path)
    assert (tmp_path / "demo" / "montages" / "bangs.mp4").stat().st_size > 100_000
    run(venv / "bin" / "content-ai", "queue", "check", cwd=tmp_path)
