"""The manifest's file is deleted, and the commands bring it back."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.acceptance.test_queue_cli import queue
from content_pipeline_tests.helpers import samples


@pytest.fixture
def processed(tmp_path: Path, samples_folder: Path) -> Path:
    """The folder of a project; outputs lie beside the recording, where only the manifest tells the two apart."""
    library = tmp_path / "library"
    library.mkdir()
    shutil.copy2(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), library / "game.mp4")
    done = process(tmp_path)
    assert done["totals"]["stages_computed"] == 4
    return tmp_path


def process(folder: Path, *more: str) -> dict:
    done = content_ai("process", "-i", folder / "library", "-o", folder / "library", *more, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def lose_the_manifest(folder: Path) -> None:
    (folder / ".content-ai" / "queue.db").unlink()


def logs(folder: Path) -> int:
    return len(list((folder / ".content-ai" / "logs").iterdir()))


def test_process_finds_everything_done_although_the_manifest_was_deleted(processed: Path) -> None:
    logs_before = logs(processed)
    lose_the_manifest(processed)
    done = process(processed)
    assert done["totals"]["videos"] == done["totals"]["succeeded"] == 1
    assert (done["totals"]["stages_computed"], done["totals"]["stages_reused"]) == (0, 4)
    assert logs(processed) == logs_before, "no child was started"
    assert queue(processed, "check") == {"violations": []}

    lose_the_manifest(processed)
    told = content_ai("process", "-i", processed / "library", "-o", processed / "library", cwd=processed)
    assert "was used before: 1 video and 1 job were rebuilt" in told.stderr


def test_rebuild_brings_back_the_jobs_and_says_so(processed: Path) -> None:
    (before,) = queue(processed, "list")
    assert queue(processed, "rebuild") == {"videos": 0, "jobs": 0, "unknown": 0}
    lose_the_manifest(processed)
    assert queue(processed, "rebuild") == {"videos": 1, "jobs": 1, "unknown": 0}
    (after,) = queue(processed, "list")
    for name in ("status", "video_key", "config_hash", "stage_keys", "output_hashes", "results"):
        assert after[name] == before[name]
    (line,) = queue(processed, "show", after["job_id"])["transitions"]
    assert line["reason"] == "rebuilt from Dagster's records"
    assert "0 videos and 0 jobs" in content_ai("queue", "rebuild", cwd=processed).stdout


def test_what_a_person_forgot_is_not_rebuilt(processed: Path) -> None:
    assert queue(processed, "clear", "--manifest", "--yes") == {"cleared": 1}
    assert queue(processed, "rebuild") == {"videos": 0, "jobs": 0, "unknown": 0}
    assert queue(processed, "list") == []


def test_without_records_there_is_nothing_to_rebuild_and_none_are_made(tmp_path: Path) -> None:
    assert queue(tmp_path, "rebuild") == {"videos": 0, "jobs": 0, "unknown": 0}
    assert not (tmp_path / ".content-ai" / "dagster").exists()


def dagsters_runs(folder: Path) -> int:
    with sqlite3.connect(f"file:{folder}/.content-ai/dagster/history/runs.db?mode=ro", uri=True) as connection:
        return connection.execute("SELECT count(*) FROM runs").fetchone()[0]


def test_what_is_rebuilt_after_pruning_is_what_was_rebuilt_before(processed: Path) -> None:
    process(processed, "--rms-threshold", "0.2")
    process(processed)
    kept = ("status", "video_key", "config_hash", "stage_keys", "output_hashes", "results", "run_id", "completed_at")

    def rebuilt() -> list[dict]:
        lose_the_manifest(processed)
        assert queue(processed, "rebuild") == {"videos": 1, "jobs": 1, "unknown": 0}
        return [{name: job[name] for name in kept} for job in queue(processed, "list")]

    before = rebuilt()
    assert dagsters_runs(processed) == 3
    assert queue(processed, "prune", "--older-than", "0s", "--yes")["runs"] == 2
    assert dagsters_runs(processed) == 1
    assert queue(processed, "prune", "--older-than", "0s", "--yes")["runs"] == 0
    assert rebuilt() == before
    done = process(processed)
    assert (done["totals"]["stages_computed"], done["totals"]["stages_reused"]) == (0, 4)
