"""Measuring in a process of its own, so that memory and CPU are those of the thing measured."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float
    peak_bytes: int
    value: Any


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is baseline / ours: larger is better."""

    name: str
    ours: float
    baseline: float
    unit: str
    target: float

    @property
    def ratio(self) -> float:
        return self.baseline / self.ours if self.ours else float("inf")

    @property
    def met(self) -> bool:
        return self.ratio >= self.target


def cost_of(work: Callable[[], Any]) -> Cost:
    """Run `work` in a forked child and wait for it; its value comes back as JSON."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        started = time.perf_counter()
        value = work()
        wall_s = time.perf_counter() - started
        os.write(writer, json.dumps({"value": value, "wall_s": wall_s}).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    _, status, usage = os.wait4(child, 0)
    if status or not said:
        raise RuntimeError(f"the measured work failed with status {status}")
    told = json.loads(said)
    return Cost(told["wall_s"], usage.ru_utime + usage.ru_stime, _peak_bytes(usage), told["value"])


def _peak_bytes(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss * 1024


def tree_cpu_s() -> float:
    """CPU of this process and of all that came of it, the ended ones included."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[int(folder.name)] = int(fields[1])
        spent[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return sum(cpu_s for pid, cpu_s in spent.items() if is_ours(pid))


@contextmanager
def patched_environment(given: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
