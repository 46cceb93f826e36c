import json
from pathlib import Path

import pytest

from content_pipeline.execution.launch import Launch
from content_pipeline.launchers.launch_queue import has_work_for
from content_pipeline.launchers.local.folder_launch_queue import FolderLaunchQueue

RUN_ID = "2c3f7c1e-3f5e-4c51-9c0b-2d1a5d8c9e7f"


@pytest.fixture
def launch_queue(tmp_path: Path) -> FolderLaunchQueue:
    return FolderLaunchQueue(tmp_path)


def test_a_removed_launch_takes_its_stop_request_with_it(launch_queue: FolderLaunchQueue) -> None:
    launch_queue.add(Launch(RUN_ID, "process_video"))
    launch_queue.ask_to_stop(RUN_ID)
    assert launch_queue.run_ids() == launch_queue.asked_to_stop() == {RUN_ID}
    launch_queue.remove(RUN_ID)
    assert launch_queue.run_ids() == launch_queue.asked_to_stop() == set()
    assert launch_queue.get(RUN_ID) is None


def test_files_that_are_no_launches_are_left_alone(launch_queue: FolderLaunchQueue, tmp_path: Path) -> None:
    launches = tmp_path / "launches"
    launches.mkdir()
    for name in ("package.json", "notes.stop", f"{RUN_ID}.json", f"{RUN_ID}.stop"):
        (launches / name).write_text("{}")
    assert launch_queue.run_ids() == launch_queue.asked_to_stop() == {RUN_ID}
    assert not has_work_for(launch_queue, "any"), "what cannot be read is no launch"
    assert (launches / "package.json").exists() and not (launches / f"{RUN_ID}.json").exists()


@pytest.mark.parametrize(("of", "is_work"), [(None, True), ("ours", True), ("another", False)])
def test_only_a_launch_of_the_same_database_is_work(
    launch_queue: FolderLaunchQueue, of: str | None, is_work: bool
) -> None:
    launch_queue.add(Launch(RUN_ID, "process_video", database=of))
    assert has_work_for(launch_queue, "ours") is is_work


def test_a_launch_of_the_version_before_is_carried(launch_queue: FolderLaunchQueue) -> None:
    """It said which manifest it belongs to in other words."""
    launch_queue.add(Launch(RUN_ID, "process_video", partition_key="a-video"))
    entry = launch_queue._entry(RUN_ID)
    written = json.loads(entry.read_text())
    del written["database"]
    entry.write_text(json.dumps({**written, "manifest": "sqlite:////games/.content-ai/queue.db"}))
    assert launch_queue.get(RUN_ID) == Launch(RUN_ID, "process_video", partition_key="a-video")
    assert has_work_for(launch_queue, "sqlite:////games/.content-ai/queue.db")
