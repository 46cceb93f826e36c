import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.execution.worker_identity import is_awake, is_gone, send_signal, this_worker
from content_pipeline.system import process_identity
from content_pipeline.system.process_identity import GONE, Place, ProcessIdentity, here, this_process

HERE = Place("machine", "boot", "1-2")
WORKER = ProcessIdentity("pc", HERE, 42, "1000")


@pytest.mark.parametrize(
    ("place", "found", "gone"),
    [
        (HERE, "1000", False),
        (HERE, GONE, True),
        (HERE, "2000", True),  # the number was given anew
        (HERE, None, False),  # hidden from us
        (Place("machine", "another boot", "1-2"), GONE, False),  # a clone, or before a reboot: who knows
        (Place("another machine", "boot", "1-2"), GONE, False),
        (Place("machine", "boot", "3-2"), GONE, False),  # another container
        (None, GONE, False),
    ],
)
def test_a_worker_is_gone_only_where_its_pid_means_something(place: Any, found: Any, gone: bool) -> None:
    assert process_identity.is_gone(WORKER, place, lambda _pid: found) is gone


def test_two_clones_of_one_machine_never_call_each_other_dead() -> None:
    """Equal host names, machine ids and namespaces (the first one has the same number on every kernel), equal pids."""
    one, other = WORKER, replace(WORKER, place=replace(HERE, boot="another boot"))
    for worker, seen_from in ((one, other), (other, one)):
        assert not process_identity.is_gone(worker, seen_from.place, lambda _pid: GONE)


def test_an_identity_is_read_as_it_was_written() -> None:
    assert ProcessIdentity.parse(str(WORKER)) == WORKER
    unknown = replace(WORKER, place=None)
    assert ProcessIdentity.parse(str(unknown)) == unknown
    assert len(this_worker()) < 200, "as long as the manifest's column"


@pytest.mark.parametrize("worker", ["somebody", "", "pc:1234abcd-4026531836:1:99", "a:b:c:d:e:f"])
def test_of_a_worker_that_cannot_be_placed_the_lease_decides(worker: str) -> None:
    assert not is_gone(worker)
    assert not is_awake(worker)
    assert not send_signal(worker, signal.SIGKILL)


def test_the_death_of_a_process_is_seen_also_before_it_is_collected() -> None:
    worker, process = _start()
    assert not is_gone(worker) and is_awake(worker)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert not is_gone(worker) and not is_awake(worker)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(worker)
    process.wait()
    assert is_gone(worker)


def test_a_signal_reaches_the_very_process_or_nobody() -> None:
    worker, process = _start()
    before, another_boot = ProcessIdentity.parse(worker), replace(here(), boot="another")
    assert not send_signal(str(replace(before, started="1")), signal.SIGKILL), "the number was given anew"
    assert not send_signal(str(replace(before, place=another_boot)), signal.SIGKILL)
    assert process.poll() is None
    assert send_signal(worker, signal.SIGTERM)
    assert process.wait(20) == -signal.SIGTERM
    assert not send_signal(worker, signal.SIGTERM)


def _start() -> tuple[str, subprocess.Popen]:
    tell = (
        "import signal; from content_pipeline.execution.worker_identity import this_worker; "
        "print(this_worker(), flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", f"{tell}; signal.pause()"], stdout=subprocess.PIPE, text=True)
    return process.stdout.readline().strip(), process


def _unshared(*command: str, proc: bool = True) -> list[str]:
    return ["unshare", "--pid", "--uts", "--fork", *(["--mount-proc"] if proc else []), *command]


def _can_unshare() -> bool:
    try:
        return subprocess.run(_unshared("true"), capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not _can_unshare(), reason="this user may not make namespaces")
def test_a_process_in_another_namespace_is_never_called_gone_nor_signalled() -> None:
    """As a container sees it: one hostname, one machine id, one kernel, other pids."""
    worker = this_worker()
    look = (
        "import signal, sys; from content_pipeline.execution.worker_identity import *;"
        "print(is_gone(sys.argv[1]), is_awake(sys.argv[1]), send_signal(sys.argv[1], signal.SIGKILL), this_worker())"
    )
    told = subprocess.run(
        _unshared(sys.executable, "-c", look, worker), capture_output=True, text=True, check=True, cwd=Path.cwd()
    ).stdout.split()
    assert told[:3] == ["False", "False", "False"]
    assert not is_gone(told[3]), "nor the other way round, though its pid is long free"


@pytest.mark.skipif(not _can_unshare(), reason="this user may not make namespaces")
def test_where_proc_shows_other_processes_nothing_is_known_for_sure() -> None:
    look = "from content_pipeline.system.process_identity import here; print(here())"
    command = _unshared(sys.executable, "-c", look, proc=False)
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "None"


def test_this_process_knows_itself() -> None:
    assert this_process().place == here() is not None
    assert this_process().pid == os.getpid()
