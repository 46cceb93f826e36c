"""What a piece of work costs: time, CPU and memory, each measured in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

PROJECT = Path(__file__).resolve().parents[1]
SAMPLE_EVERY_S = 0.05
NOTE = "note: "  # a line that a bench wants to be seen


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` says how much better ours is; it is to reach `target`.

    Where there is nothing to compare with, `baseline` is the figure that was set as a limit, and `against` says so.
    """

    name: str
    ours: float
    baseline: float
    unit: str
    target: float
    against: str = "limit"
    better: Literal["less", "more"] = "less"
    note: str = ""

    @property
    def ratio(self) -> float:
        better, worse = (self.baseline, self.ours) if self.better == "less" else (self.ours, self.baseline)
        return better / worse if worse else float("inf")

    @property
    def met(self) -> bool:
        return self.ratio >= self.target


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float
    peak_bytes: int
    value: Any = None


def nothing() -> None:
    return None


def cost_of(work: Callable[[], Any], prepare: Callable[[], object] = nothing) -> Cost:
    """Run `work` in a forked child, after `prepare`, which is not counted; its value comes back as JSON."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            prepare()
            os.write(writer, json.dumps(_measured(work)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not said:
        raise RuntimeError(f"the measured work failed with status {status}")
    return Cost(**json.loads(said))


def best_of(times: int, work: Callable[[], Any], prepare: Callable[[], object] = nothing) -> Cost:
    """The cheapest of several tries: what else the machine does only ever adds."""
    return min((cost_of(work, prepare) for _ in range(times)), key=lambda cost: cost.cpu_s)


def _measured(work: Callable[[], Any]) -> dict[str, Any]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before_s, started = _own_cpu_s(), time.perf_counter()
    value = work()
    return {
        "wall_s": time.perf_counter() - started,
        "cpu_s": _own_cpu_s() - before_s,
        "peak_bytes": _status_bytes("VmHWM"),
        "value": value,
    }


def _own_cpu_s() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def cost_of_command(command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None) -> Cost:
    """A whole command, from its start to its end; memory is what all its processes hold together at the worst moment.

    Pages that processes share count once. What the command prints is its value.
    """
    before_s = _own_cpu_s()
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watcher = _Watcher(process.pid)
    watcher.start()
    said, complaints = process.communicate()
    wall_s = time.perf_counter() - started
    watcher.stop()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {complaints[-2000:]}")
    return Cost(wall_s, _own_cpu_s() - before_s, watcher.peak_bytes, said)


class _Watcher(threading.Thread):
    """Looks now and then at what a process and all that came of it hold."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._pid = pid
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(SAMPLE_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(_held_bytes, _tree(self._pid))))

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _held_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has just ended
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _processes() -> dict[int, list[str]]:
    """The fields of `/proc/<pid>/stat` after the name, of every process."""
    found: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
    return found


def _tree(root: int) -> list[int]:
    """A process and all that came of it."""
    parents = {pid: int(fields[1]) for pid, fields in _processes().items()}

    def is_of_tree(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return [pid for pid in parents if is_of_tree(pid)]


def tree_cpu_s() -> float:
    """CPU of this process and of all that came of it, the ended ones included."""
    processes = _processes()
    ticks = sum(sum(map(int, processes[pid][11:15])) for pid in _tree(os.getpid()) if pid in processes)
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def patched_environment(given: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
