import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.execution import child_pool as pool_module
from content_pipeline.execution.child_pool import Ended, Pool, Said, Task
from content_pipeline.system.process_identity import state_of
from content_pipeline_tests.helpers.eventually import eventually

Send = Callable[[Any], None]


def run(pool: Pool, tasks: list[Task]) -> Iterator[Any]:
    """All that happens while these tasks run."""
    waiting = list(tasks)
    while waiting or pool.running:
        while waiting and pool.has_room:
            pool.start(waiting.pop(0))
        yield from pool.listen()


def events(pool: Pool, tasks: list[Task]) -> list[Any]:
    return list(run(pool, tasks))


def task(tmp_path: Path, name: str, run: Callable[[Send], object]) -> Task:
    def work(send: Send) -> None:
        run(send)

    return Task(name, work, tmp_path / f"{name}.log")


def _send(value: Any, send: Send) -> None:
    send(value)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_children_say_what_they_did_and_end(tmp_path: Path) -> None:
    tasks = [task(tmp_path, str(n), partial(_send, {"n": n})) for n in range(5)]
    heard = events(Pool(2), tasks)
    assert sorted(event.value["n"] for event in heard if isinstance(event, Said)) == [0, 1, 2, 3, 4]
    assert [event.crash for event in heard if isinstance(event, Ended)] == [None] * 5


def test_large_values_arrive_whole(tmp_path: Path) -> None:
    heard = events(Pool(1), [task(tmp_path, "a", lambda send: send("x" * 1_000_000))])
    assert [len(event.value) for event in heard if isinstance(event, Said)] == [1_000_000]


def test_a_crash_breaks_one_child_only(tmp_path: Path) -> None:
    def die(send: Send) -> None:
        send("before")
        os.kill(os.getpid(), signal.SIGKILL)

    heard = events(Pool(1), [task(tmp_path, "bad", die), task(tmp_path, "good", lambda send: send("ok"))])
    assert [(event.task.name, event.crash) for event in heard if isinstance(event, Ended)] == [
        ("bad", "killed by SIGKILL"),
        ("good", None),
    ]
    assert [event.value for event in heard if isinstance(event, Said)] == ["before", "ok"]


def test_an_exception_is_in_the_log(tmp_path: Path) -> None:
    def fail(send: Send) -> None:
        raise ValueError("on purpose")

    heard = events(Pool(1), [task(tmp_path, "bad", fail)])
    assert [event.crash for event in heard if isinstance(event, Ended)] == ["ended with exit code 1"]
    assert "on purpose" in (tmp_path / "bad.log").read_text()


def test_at_most_as_many_run_at_once_as_there_are_slots(tmp_path: Path) -> None:
    full = tmp_path / "full"

    def work(send: Send) -> None:
        send("start")
        eventually(full.exists, "all slots are taken")

    now = most = 0
    for event in run(Pool(2), [task(tmp_path, str(n), work) for n in range(6)]):
        if isinstance(event, Said):
            now += 1
            most = max(most, now)
            if most == 2:
                full.touch()
        elif isinstance(event, Ended):
            now -= 1
    assert most == 2


def test_stopping_ends_children_and_what_they_started(tmp_path: Path) -> None:
    def work(send: Send) -> None:
        send(subprocess.Popen(["sleep", "600"]).pid)
        signal.pause()

    pool = Pool(1)
    grandchild = next(event.value for event in run(pool, [task(tmp_path, "a", work)]) if isinstance(event, Said))
    (ended,) = pool.stop()
    assert ended == Ended(ended.task, "ended with exit code 130")
    eventually(lambda: not alive(grandchild), "the grandchild is gone")


PARENT = """
import signal, sys
from pathlib import Path
from content_pipeline.execution.child_pool import Pool, Said, Task
import os
def work(send):
    send(os.getpid())
    signal.pause()
pool = Pool(1)
pool.start(Task("a", work, Path(sys.argv[1])))
while True:
    for event in pool.listen():
        print(event.value, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's death signal is Linux's")
def test_children_die_when_the_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.kill()
    parent.wait(10)
    eventually(lambda: not alive(child), "the child is gone")


def _started(pool: Pool, one: Task) -> int:
    """The child's pid, once it has said a word."""
    pid = pool.start(one)
    eventually(lambda: any(isinstance(event, Said) for event in pool.listen()), "the child speaks")
    return pid


def _hang_in_c(send: Send) -> None:
    import ctypes

    send("here")
    ctypes.CDLL(None).pause()


def _hang_in_a_loop(send: Send) -> None:
    send("here")
    while True:
        pass


@pytest.mark.parametrize("hang", [_hang_in_c, _hang_in_a_loop])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_child_that_hangs_says_where(tmp_path: Path, hang: Callable[[Send], object], stopped: bool) -> None:
    pool = Pool(1)
    pid = _started(pool, task(tmp_path, "a", hang))
    if stopped:
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: state_of(pid) == "T", "the child is stopped")
    (stack,) = pool.stacks("a")
    assert stack.pid == pid
    assert any(call.endswith(f" {hang.__name__}") for call in stack.calls)
    assert stack.kernel.startswith("stopped") is stopped
    assert hang.__name__ in (tmp_path / "a.log").read_text()
    pool.stop()


def test_the_helper_that_hangs_says_where_too(tmp_path: Path) -> None:
    from content_pipeline.system.child_process import ChildProcess

    def work(send: Send) -> None:
        helper = ChildProcess.start(lambda _send: _hang_in_c(lambda word: None))
        send(helper.pid)
        os.read(helper.pipe, 1)

    pool = Pool(1)
    _started(pool, task(tmp_path, "a", work))

    def is_told() -> bool:
        waiting, hanging = pool.stacks("a")
        return any(call.endswith(" work") for call in waiting.calls) and any(
            call.endswith(" _hang_in_c") for call in hanging.calls
        )

    eventually(is_told, "both say where they are")
    pool.stop()


def test_a_child_that_is_killed_and_does_not_end_keeps_no_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stuck in the kernel, or as here: something that got away holds its pipe."""
    monkeypatch.setattr(pool_module, "UNKILLABLE_S", 0.3)

    def work(send: Send) -> None:
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
            os._exit(0)
        send("here")
        signal.pause()

    pool = Pool(1)
    _started(pool, task(tmp_path, "a", work))
    pool.signal("a", signal.SIGKILL)
    heard: list[Any] = []
    eventually(lambda: heard.extend(pool.listen()) or heard, "the child was heard")
    assert [event.crash for event in heard] == ["killed by SIGKILL"]
    assert pool.has_room


def test_a_crash_leaves_its_stack_in_the_log(tmp_path: Path) -> None:
    import ctypes

    heard = events(Pool(1), [task(tmp_path, "a", lambda send: ctypes.string_at(0))])
    assert [event.crash for event in heard] == ["killed by SIGSEGV"]
    assert "Segmentation fault" in (tmp_path / "a.log").read_text()
