import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from content_pipeline.execution.launch import Launch
from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.launchers.local import launch_queue as spool_module
from content_pipeline.launchers.local.launch_queue import HUNG_S, LaunchQueue
from content_pipeline.launchers.local.supervisor_process import end_supervisor
from content_pipeline.system.process_identity import here, this_process


@pytest.fixture
def launch_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchQueue]:
    monkeypatch.setattr(spool_module, "LAST_CHANCE_S", 0.5)
    found = LaunchQueue(tmp_path)
    with found.supervising(card(this_worker()), 0.0) as alone:
        assert alone
        yield found


def card(worker: str) -> dict:
    return {"worker": worker, "pid": os.getpid(), "build": "1", "lease_s": 1.0}


def silent_for(launch_queue: LaunchQueue, seconds: float) -> None:
    """As if the last beat was so long ago."""
    then_ns = time.monotonic_ns() - int(seconds * 1e9)
    os.utime(launch_queue._beat_file(), ns=(then_ns, then_ns))


def test_a_supervisor_that_is_silent_for_long_hangs(launch_queue: LaunchQueue) -> None:
    assert not launch_queue.is_hung(card(this_worker()))
    silent_for(launch_queue, HUNG_S - 5)
    assert not launch_queue.is_hung(card(this_worker()))
    silent_for(launch_queue, HUNG_S + 1)
    assert launch_queue.is_hung(card(this_worker()))


def test_files_that_are_no_launches_are_left_alone(launch_queue: LaunchQueue, tmp_path: Path) -> None:
    launches = tmp_path / "launches"
    run_id = "0a1b2c3d-0a1b-4c2d-8e3f-0a1b2c3d4e5f"
    for name in ("package.json", "notes.stop", f"{run_id}.json", f"{run_id}.stop"):
        (launches / name).write_text("{}")
    assert launch_queue.run_ids() == launch_queue.asked_to_stop() == {run_id}
    assert not launch_queue.has_work_for("any"), "what cannot be read is no launch"
    assert (launches / "package.json").exists() and not (launches / f"{run_id}.json").exists()


def test_a_clock_that_is_set_hangs_nobody(launch_queue: LaunchQueue) -> None:
    """The wall clock an hour on, or back: files are that much older, or of the future."""
    for jump_s in (3600, -3600):
        os.utime(launch_queue._lock_file(), (time.time() - jump_s, time.time() - jump_s))
        assert not launch_queue.is_hung(card(this_worker()))


def test_a_supervisor_that_wakes_up_late_gets_a_last_chance(launch_queue: LaunchQueue) -> None:
    silent_for(launch_queue, 3600)
    late = threading.Timer(0.2, launch_queue.beat)
    late.start()
    assert not launch_queue.is_hung(card(this_worker()))
    late.join()


def test_a_supervisor_of_another_boot_or_container_is_neither_called_hung_nor_signalled(
    launch_queue: LaunchQueue,
) -> None:
    """Its pid is this very process's: whoever went by the number alone would end it here."""
    silent_for(launch_queue, 3600)
    for elsewhere in (replace(here(), boot="another"), replace(here(), namespace="1-1"), None):
        worker = str(replace(this_process(), place=elsewhere))
        assert not launch_queue.is_hung(card(worker))
        assert not end_supervisor(card(worker))
    assert not end_supervisor({"pid": os.getpid(), "build": None, "lease_s": 0.0})


def test_a_launch_of_the_version_before_is_carried(launch_queue: LaunchQueue) -> None:
    """It said which manifest it belongs to in other words."""
    run_id = "2c3f7c1e-3f5e-4c51-9c0b-2d1a5d8c9e7f"
    launch_queue.add(Launch(run_id, "process_video", partition_key="a-video"))
    entry = launch_queue._entry(run_id)
    written = json.loads(entry.read_text())
    del written["database"]
    entry.write_text(json.dumps({**written, "manifest": "sqlite:////games/.content-ai/queue.db"}))
    assert launch_queue.get(run_id) == Launch(run_id, "process_video", partition_key="a-video")
    assert launch_queue.has_work_for("sqlite:////games/.content-ai/queue.db")
