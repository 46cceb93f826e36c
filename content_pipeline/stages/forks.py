"""A function over many items, in a few forked processes: results come back as they are ready, as JSON values."""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from content_pipeline.errors import WorkerCrashed
from content_pipeline.lifetime import dying_with

Item = TypeVar("Item")


@dataclass
class _Child:
    pid: int
    pipe: int
    unread: bytes = field(default=b"")


def in_forks(run: Callable[[Item], Any], items: Sequence[Item], processes: int) -> Iterator[Any]:
    """The result of each item, in any order. A process that dies fails the whole: half a sum is none."""
    if processes < 2 or len(items) < 2:
        yield from map(run, items)
        return
    children = [_fork(run, items[number::processes]) for number in range(min(processes, len(items)))]
    try:
        yield from _hear(children)
    finally:
        for child in children:
            os.close(child.pipe)
            os.kill(child.pid, signal.SIGKILL)  # until it is waited for, the number cannot be anyone else's
            os.waitpid(child.pid, 0)


def _hear(children: Sequence[_Child]) -> Iterator[Any]:
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.pipe, selectors.EVENT_READ, child)
        while selector.get_map():
            for ready, _ in selector.select():
                child = ready.data
                data = os.read(child.pipe, 1 << 16)
                if not data:
                    selector.unregister(child.pipe)
                    _check_whole(child)
                    continue
                *lines, child.unread = (child.unread + data).split(b"\n")
                yield from map(json.loads, lines)


def _check_whole(child: _Child) -> None:
    """The last line of a process that got through is a word of its own."""
    if child.unread != b"done":
        raise WorkerCrashed(f"a helper process ({child.pid}) died before it was through")


def _fork(run: Callable[[Item], Any], items: Sequence[Item]) -> _Child:
    reading, writing = os.pipe()
    die_with_parent = dying_with(os.getpid())
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _live(run, items, writing, die_with_parent)
    os.close(writing)
    return _Child(pid, reading)


def _live(
    run: Callable[[Item], Any], items: Sequence[Item], writing: int, die_with_parent: Callable[[], None]
) -> NoReturn:
    """The child's whole life: it must never return into the code that forked it."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        gc.disable()  # it ends soon, and looking for circles among a great many small records is a third of its time
        with os.fdopen(writing, "wb") as results, suppress(BrokenPipeError):
            for item in items:
                results.write(json.dumps(run(item)).encode() + b"\n")
                results.flush()
            results.write(b"done")
    except BaseException:  # noqa: BLE001 - the boundary of a process: report, then end
        traceback.print_exc()
    finally:
        os._exit(0)
