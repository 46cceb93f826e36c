import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.launchers.local import supervisor_lock
from content_pipeline.launchers.local.run_launcher import end_supervisor, is_outdated
from content_pipeline.launchers.local.supervisor_lock import HUNG_S, SupervisorInfo, SupervisorLock
from content_pipeline.system.process_identity import here, this_process


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SupervisorLock]:
    monkeypatch.setattr(supervisor_lock, "LAST_CHANCE_S", 0.5)
    lock = SupervisorLock(tmp_path)
    with lock.hold(supervisor(this_worker()), 0.0) as alone:
        assert alone
        yield lock


def supervisor(worker: str) -> SupervisorInfo:
    return SupervisorInfo(worker=worker, pid=os.getpid(), build="1", lease_s=1.0)


def silent_for(lock: SupervisorLock, seconds: float) -> None:
    """As if the last beat was so long ago."""
    then_ns = time.monotonic_ns() - int(seconds * 1e9)
    os.utime(lock._beat_file(), ns=(then_ns, then_ns))


def test_the_holder_is_known_while_it_holds_the_lock_and_the_latest_one_afterwards(tmp_path: Path) -> None:
    lock, info = SupervisorLock(tmp_path), replace(supervisor(this_worker()), manifest="m")
    assert lock.holder() is None and lock.latest_holder() is None
    with lock.hold(info, 0.0):
        assert lock.holder() == info
        with SupervisorLock(tmp_path).hold(info, 0.0) as alone:
            assert not alone
    assert lock.holder() is None and lock.latest_holder() == info


def test_the_lock_file_says_what_supervisors_of_other_versions_look_for(lock: SupervisorLock) -> None:
    written = json.loads(lock._lock_file().read_text())
    assert written.keys() == {"worker", "pid", "build", "manifest", "lease_s"}


@pytest.mark.parametrize(
    ("text", "info", "outdated"),
    [
        ('{"worker": "w", "pid": 7, "build": "0", "lease_s": 60}', SupervisorInfo("w", 7, "0", None, 60.0), True),
        ('{"worker": "w", "pid": 7, "build": "0", "new": 1}', SupervisorInfo("w", 7, "0"), True),
        ("", SupervisorInfo(), False),
    ],
    ids=["version before", "later version", "nothing written yet"],
)
def test_a_supervisor_of_another_version_is_recognised(
    lock: SupervisorLock, tmp_path: Path, text: str, info: SupervisorInfo, outdated: bool
) -> None:
    lock._lock_file().write_text(text)
    assert lock.holder() == info
    assert is_outdated(tmp_path, "any") is outdated


def test_a_supervisor_that_is_silent_for_long_hangs(lock: SupervisorLock) -> None:
    assert not lock.is_hung(supervisor(this_worker()))
    silent_for(lock, HUNG_S - 5)
    assert not lock.is_hung(supervisor(this_worker()))
    silent_for(lock, HUNG_S + 1)
    assert lock.is_hung(supervisor(this_worker()))


def test_a_clock_that_is_set_hangs_nobody(lock: SupervisorLock) -> None:
    """The wall clock an hour on, or back: files are that much older, or of the future."""
    for jump_s in (3600, -3600):
        os.utime(lock._lock_file(), (time.time() - jump_s, time.time() - jump_s))
        assert not lock.is_hung(supervisor(this_worker()))


def test_a_supervisor_that_wakes_up_late_gets_a_last_chance(lock: SupervisorLock) -> None:
    silent_for(lock, 3600)
    late = threading.Timer(0.2, lock.beat)
    late.start()
    assert not lock.is_hung(supervisor(this_worker()))
    late.join()


def test_a_supervisor_of_another_boot_or_container_is_neither_called_hung_nor_signalled(lock: SupervisorLock) -> None:
    """Its pid is this very process's: whoever went by the number alone would end it here."""
    silent_for(lock, 3600)
    for elsewhere in (replace(here(), boot="another"), replace(here(), namespace="1-1"), None):
        worker = str(replace(this_process(), place=elsewhere))
        assert not lock.is_hung(supervisor(worker))
        assert not end_supervisor(supervisor(worker))
    assert not end_supervisor(SupervisorInfo(pid=os.getpid()))
