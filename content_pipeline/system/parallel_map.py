"""A function over many items, in a few forked processes: results come back as they are ready, as JSON values."""

from __future__ import annotations

import json
import os
import selectors
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, TypeVar

from content_pipeline.errors import WorkerCrashed
from content_pipeline.system.child_process import Helper

Item = TypeVar("Item")


@dataclass
class _Heard:
    helper: Helper
    unread: bytes = field(default=b"")


def parallel_map(run: Callable[[Item], Any], items: Sequence[Item], processes: int) -> Iterator[Any]:
    """The result of each item, in any order. A process that dies fails the whole: half a sum is none."""
    if processes < 2 or len(items) < 2:
        yield from map(run, items)
        return
    helpers = [Helper.start(_told(run, items[number::processes])) for number in range(min(processes, len(items)))]
    try:
        yield from _hear(helpers)
    finally:
        for helper in helpers:
            helper.stop()


def _hear(helpers: Sequence[Helper]) -> Iterator[Any]:
    with selectors.DefaultSelector() as selector:
        for helper in helpers:
            selector.register(helper.pipe, selectors.EVENT_READ, _Heard(helper))
        while selector.get_map():
            for ready, _ in selector.select():
                heard = ready.data
                data = os.read(heard.helper.pipe, 1 << 16)
                if not data:
                    selector.unregister(heard.helper.pipe)
                    _check_whole(heard)
                    continue
                *lines, heard.unread = (heard.unread + data).split(b"\n")
                yield from map(json.loads, lines)


def _check_whole(heard: _Heard) -> None:
    """The last line of a process that got through is a word of its own."""
    if heard.unread != b"done":
        raise WorkerCrashed(f"a helper process ({heard.helper.pid}) died before it was finished")


def _told(run: Callable[[Item], Any], items: Sequence[Item]) -> Callable[[IO[bytes]], None]:
    """What a helper does with its share of the items."""

    def speak(pipe: IO[bytes]) -> None:
        for item in items:
            pipe.write(json.dumps(run(item)).encode() + b"\n")
            pipe.flush()
        pipe.write(b"done")

    return speak
