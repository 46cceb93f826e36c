"""Trying an operation again while the database is away, until it is done or took too long.

Every operation is one transaction, so that one which failed has changed nothing. One whose commit was cut off may be
done twice, so every operation is idempotent: what a worker writes passes the fence, and all else says what is to be,
not what is to change.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Protocol, TypeVar

from content_pipeline.errors import DatabaseAway

FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 1.0

Answer = TypeVar("Answer")
Class = TypeVar("Class", bound=type[Any])


class _Database(Protocol):
    retry_s: float


class _Part(Protocol):
    _database: _Database


def retry_when_away(part: Class) -> Class:
    """Make every public method of a class such an operation. What is no plain function is left as it is."""
    for name, method in list(vars(part).items()):
        if not name.startswith("_") and inspect.isfunction(method) and not _is_generator(method):
            setattr(part, name, _with_retries(method))
    return part


def _is_generator(method: Callable[..., Any]) -> bool:
    """Also behind `contextmanager`: what happens in its block cannot be done again from here."""
    return inspect.isgeneratorfunction(inspect.unwrap(method))


def _with_retries(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def operation(self: _Part, *args: Any, **given: Any) -> Any:
        # An iterator would be empty the second time.
        kept = [list(arg) if isinstance(arg, Iterator) else arg for arg in args]
        return call_with_retries(lambda: method(self, *kept, **given), self._database.retry_s)

    return operation


def call_with_retries(operation: Callable[[], Answer], retry_s: float, what: str = "The manifest") -> Answer:
    """The operation's answer, once the database answers. Logs that it waits, and when that is over."""
    began_s, delay_s, is_logged = time.monotonic(), FIRST_DELAY_S, False
    while True:
        try:
            answer = operation()
        except DatabaseAway as error:
            if time.monotonic() - began_s >= retry_s:
                raise
            if not is_logged and delay_s > FIRST_DELAY_S:  # a moment is not worth a message
                _log().warning("%s. Waiting up to %g s for it.", error, retry_s)
                is_logged = True
            time.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)
        else:
            if is_logged:
                _log().warning("%s answers again, after %.0f s.", what, time.monotonic() - began_s)
            return answer


def _log() -> logging.Logger:
    return logging.getLogger(__name__)
