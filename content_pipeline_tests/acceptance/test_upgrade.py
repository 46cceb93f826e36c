"""A project of the version before is opened by this one: it goes on, and only what the new version makes otherwise is
computed again: detections, and the montage. The curves, which are nearly all of the work, are reused.

`version_before.tar.xz` holds such a project, made by the commands of commit 72b4ed7 in /tmp/version-before:

    content-ai process -i library -o output
    content-ai tune -i library --setting rms_threshold --values 0.05 --apply
    content-ai process -i library -o output

Left out were logs, and clips, which the montages were made of and which are large.
"""

import json
import os
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from content_pipeline.dagster_runtime.dagster_yaml import shipped
from content_pipeline.media.source import Signature
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.acceptance.test_queue_cli import queue

ARCHIVE = Path(__file__).with_name("version_before.tar.xz")
MADE_IN = "/tmp/version-before"  # not a place that is used here: paths in the manifest begin with it
STAGE_KEYS = {
    "fingerprint": "d2e9769746fd250e3994cd0b822c1d165b71d9bc24632fa8a5a126bd9e6b1475",
    "energy": "45d18c7aa5fd9be450a5d0a0170b0cb9ebaef7e31479e7ebb23d576516d8fbe4",
    "detections": "f4f810292f67b3d7e66f0634d24a60cec858caa43d76615e741af2deda09e356",
    "montage": "6ef09204dab8756175a488c2d3d0acd1e9f558a7e24863f22387d891b95a50f7",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    with closing(sqlite3.connect(tmp_path / ".content-ai" / "queue.db")) as connection, connection:
        _move_paths(connection, tmp_path)
        signature = str(Signature.of((tmp_path / "library" / "game.mp4").stat()))
        connection.execute("UPDATE videos SET signature = ?", (signature,))
        for path, mtime_ns in connection.execute("SELECT path, mtime_ns FROM publications"):
            os.utime(path, ns=(mtime_ns, mtime_ns))  # a tar file's times are not as exact
    return tmp_path


def _move_paths(connection: sqlite3.Connection, folder: Path) -> None:
    """As if the commands had been run in this folder."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        for column in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]:
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = replace("{column}", ?, ?) WHERE "{column}" LIKE ?',
                (MADE_IN, str(folder), f"%{MADE_IN}%"),
            )


def run(project: Path, command: str) -> dict:
    done = content_ai(command, "-i", project / "library", "-o", project / "output", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def modified(project: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (project / "output").iterdir()}


def test_only_what_this_version_makes_otherwise_is_computed_again_and_once(project: Path) -> None:
    (video,) = run(project, "plan")["videos"]
    assert video["action"] == "redo"
    done = run(project, "process")
    assert (done["totals"]["stages_computed"], done["totals"]["stages_reused"]) == (2, 2)
    (job,) = queue(project, "list", "--type", "processing")
    assert {stage: job["stage_keys"][stage] == key for stage, key in STAGE_KEYS.items()} == {
        "fingerprint": True,
        "energy": True,
        "detections": False,
        "montage": False,
    }
    before = modified(project)
    assert [row["action"] for row in run(project, "plan")["videos"]] == ["keep"]
    done = run(project, "process")
    assert (done["totals"]["stages_computed"], done["totals"]["stages_reused"]) == (0, 4)
    assert modified(project) == before
    assert queue(project, "check") == {"violations": []}


def test_an_unedited_dagster_yaml_is_replaced_and_an_edited_one_is_mended(project: Path) -> None:
    path = project / ".content-ai" / "dagster" / "dagster.yaml"
    edited = path.read_text() + "\n# mine\n"
    path.write_text(edited)
    assert content_ai("doctor", cwd=project).returncode == 0
    assert path.read_text() == edited  # the doctor only looks
    assert content_ai("queue", "rebuild", cwd=project).returncode == 0
    moved = {"launcher.storage": "dagster_runtime.storage", "launcher.run_launcher": "launchers.local.run_launcher"}
    mended = edited
    for before, now in moved.items():
        assert f"content_pipeline.{before}" in edited
        mended = mended.replace(f"content_pipeline.{before}", f"content_pipeline.{now}")
    assert path.read_text() == mended
    (kept,) = path.parent.glob("dagster.yaml.*.bak")
    path.write_text(kept.read_text().removesuffix("\n# mine\n"))
    assert content_ai("queue", "rebuild", cwd=project).returncode == 0
    assert path.read_text() == shipped("dagster.yaml").read_text()
