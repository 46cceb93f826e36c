"""A disk or share inside a library that is not mounted: what it holds is out of reach, and not gone."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.definitions import build_definitions
from content_pipeline.library.plan import BACK, Action
from content_pipeline.library.presence import is_offline, is_there
from content_pipeline.library.retention import forget_old
from content_pipeline.library.scan import scan
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.open import open_manifest
from content_pipeline.media.source import Signature
from content_pipeline.services.planner import Planner
from content_pipeline.services.processing import NoProgress, Processor
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.processing import Project


@contextmanager
def mounted(folder: Path, *what: str) -> Iterator[None]:
    """A small disk of its own, or what is named."""
    folder.mkdir(parents=True, exist_ok=True)
    source = what if what else ("-t", "tmpfs", "none")
    done = subprocess.run(["mount", *source, str(folder)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this user may not mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def short(samples_folder: Path) -> Path:
    return samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))


def plan_of(project: Project) -> Any:
    settings = project.settings(library__recursive=True)
    return Planner(settings, open_manifest(settings)).enqueue(scan(project.library, settings.library)).planned


def forget_everything_old(project: Project) -> dict[str, int]:
    settings = project.settings()
    return forget_old(settings, open_manifest(settings), datetime.now(UTC) + timedelta(days=1))


@pytest.mark.parametrize("mount_point_goes_too", [False, True])
def test_what_an_unmounted_disk_holds_is_offline_and_its_jobs_outlive_retention(
    project: Project, short: Path, mount_point_goes_too: bool
) -> None:
    shutil.copy(short, project.library / "inside.mp4")
    deleted = project.library / "deleted.mp4"
    shutil.copy(short, deleted)
    deleted.write_bytes(deleted.read_bytes() + b"x")
    disk = project.library / "disk"
    on_disk = disk / "2024" / "game.mp4"
    with mounted(disk):
        on_disk.parent.mkdir()
        on_disk.write_bytes(short.read_bytes() + b"y")
        assert {one.status for one in project.process(library__recursive=True).values()} == {"succeeded"}
    deleted.unlink()
    if mount_point_goes_too:
        disk.rmdir()
    planned = plan_of(project)
    assert (planned.gone, planned.offline) == ((str(deleted),), (str(on_disk),))
    assert forget_everything_old(project)["jobs"] == 1
    left = {Path(job.subject).name for job in open_manifest(project.settings()).jobs.list()}
    assert left == {"inside.mp4", "game.mp4"}


def test_a_recording_that_was_deleted_from_a_folder_is_gone(project: Project, short: Path) -> None:
    folder = project.library / "folder"
    folder.mkdir()
    for name in ("a.mp4", "b.mp4"):
        (folder / name).write_bytes(short.read_bytes() + name.encode())
    signature = str(Signature.of((folder / "a.mp4").stat()))
    (folder / "a.mp4").unlink()
    assert not is_there(folder / "a.mp4")
    assert not is_offline(folder / "a.mp4", signature)
    shutil.rmtree(folder)
    (project.library / "other").touch()
    assert not is_offline(folder / "a.mp4", signature), "a folder that was removed, on the same disk"


def test_an_empty_folder_where_recordings_were_is_taken_for_a_missing_mount(tmp_path: Path) -> None:
    """A bind mount, or a merged file system, has the same device number as what is below it."""
    folder = tmp_path / "bind"
    folder.mkdir()
    signature = f"{os.stat(tmp_path).st_dev}:1:2:3:4"
    assert is_offline(folder / "game.mp4", signature)
    (folder / "readme").touch()
    assert not is_offline(folder / "game.mp4", signature)


def test_a_folder_that_does_not_answer_makes_nothing_gone(tmp_path: Path) -> None:
    too_long = tmp_path / ("x" * 300) / "game.mp4"  # an error that is not "not found", as a dead share gives
    assert is_there(too_long)


def test_a_job_that_failed_for_want_of_its_file_is_done_when_the_disk_is_back(
    project: Project, short: Path, tmp_path: Path
) -> None:
    shutil.copy(short, project.library / "inside.mp4")
    real, disk = tmp_path / "real", project.library / "disk"
    real.mkdir()
    (real / "game.mp4").write_bytes(short.read_bytes() + b"x")
    settings = project.settings(library__recursive=True)
    manifest = open_manifest(settings)
    with mounted(disk, "--bind", str(real)):
        project.process(library__recursive=True)
    job = next(job for job in manifest.jobs.list() if job.subject == str(disk / "game.mp4"))
    manifest.jobs.mark_dirty(JobFilter(job_ids=[job.job_id]), "on a person's request")
    Processor(settings, open_manifest(settings), NoProgress()).work(build_definitions, [job.job_id])
    failed = manifest.jobs.get(job.job_id)
    assert (failed.status, failed.error_code) == (State.FAILED, "missing_file")
    with mounted(disk, "--bind", str(real)):
        planned = next(one for one in plan_of(project).videos if one.found.path.name == "game.mp4")
        assert (planned.action, set(planned.reasons.values())) == (Action.RETRY, {BACK})
        assert project.process(library__recursive=True)["game.mp4"].status == "succeeded"
