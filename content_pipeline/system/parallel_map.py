"""`map` in a few forked processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from content_pipeline.system.child_process import ChildDied, ChildProcess, Send, wait_for_any

Item = TypeVar("Item")
Result = TypeVar("Result")

_DONE = "done"  # the last word of a child that got through its share


@dataclass(frozen=True)
class _Failed:
    error: Exception


def parallel_map(run: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Result]:
    """The result of each item, in the order of the items, each as soon as it is its turn.

    An error that an item raises is raised here, of several the first. A process that dies fails the whole.
    """
    if processes < 2 or len(items) < 2:
        yield from map(run, items)
        return
    numbers = range(len(items))
    shares = [numbers[first::processes] for first in range(min(processes, len(items)))]
    children = [ChildProcess.start(_work_on(run, items, share)) for share in shares]
    try:
        results = _results(children)
        early: dict[int, Any] = {}
        for number in numbers:
            while number not in early:
                early.update([next(results)])
            result = early.pop(number)
            if isinstance(result, _Failed):
                raise result.error
            yield result
    finally:
        for child in children:
            child.stop()


def _results(children: Sequence[ChildProcess]) -> Iterator[tuple[int, Any]]:
    """Each result with its item's number, as they come."""
    working = list(children)
    while working:
        for child in wait_for_any(working):
            received = child.receive()
            if received is None:
                raise ChildDied(f"a helper process ({child.pid}) died before it was finished")
            for message in received:
                if message == _DONE:
                    working.remove(child)
                else:
                    yield message


def _work_on(run: Callable[[Item], Any], items: Sequence[Item], share: Sequence[int]) -> Callable[[Send], None]:
    """What a child does with its share of the items, up to the first that fails."""

    def work(send: Send) -> None:
        for number in share:
            try:
                send((number, run(items[number])))
            except Exception as error:  # noqa: BLE001 - it is raised again in the parent
                send((number, _Failed(_as_sent(error))))
                break
        send(_DONE)

    return work


def _as_sent(error: Exception) -> Exception:
    """The error, or what is left of one that cannot be sent from process to process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever its class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
