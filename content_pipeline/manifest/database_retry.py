"""Waiting for a database that is away: an operation is tried again, as a whole, until it is done or took too long.

Every operation is one transaction, so that one which failed has changed nothing. One whose commit was cut off may be
done twice: what a worker writes passes the fence, and all else says what is to be, not what is to change.
"""

from __future__ import annotations

import inspect
import logging
import time
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from content_pipeline.errors import DatabaseAway

FIRST_NAP_S, LONGEST_NAP_S = 0.05, 1.0

Answer = TypeVar("Answer")


class _OnADatabase(Protocol):
    _engine: sa.Engine


Kind = TypeVar("Kind", bound=type[Any])

_patience_s: weakref.WeakKeyDictionary[sa.Engine, float] = weakref.WeakKeyDictionary()


def be_patient(engine: sa.Engine, patience_s: float) -> None:
    """How long operations of this engine wait from now on; by default they do not."""
    _patience_s[engine] = patience_s


def patient(kind: Kind) -> Kind:
    """A class whose public methods are such operations. What is no plain function is left as it is."""
    for name, method in list(vars(kind).items()):
        if not name.startswith("_") and inspect.isfunction(method) and not _is_generator(method):
            setattr(kind, name, _patient(method))
    return kind


def _is_generator(method: Callable[..., Any]) -> bool:
    """Also behind `contextmanager`: what happens in its block cannot be done again from here."""
    return inspect.isgeneratorfunction(inspect.unwrap(method))


def _patient(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def operation(self: _OnADatabase, *args: Any, **given: Any) -> Any:
        # What can be gone through but once would be empty the second time.
        kept = [list(arg) if isinstance(arg, Iterator) else arg for arg in args]
        return waiting(lambda: method(self, *kept, **given), _patience_s.get(self._engine, 0.0))

    return operation


def waiting(ask: Callable[[], Answer], patience_s: float) -> Answer:
    """What is asked for, once the database answers. Says that it waits, and when that is over."""
    began_s, nap_s, is_told = time.monotonic(), FIRST_NAP_S, False
    while True:
        try:
            answer = ask()
        except DatabaseAway as error:
            if time.monotonic() - began_s >= patience_s:
                raise
            if not is_told and nap_s > FIRST_NAP_S:  # of a moment nobody needs to know
                _log().warning("%s. Waiting up to %g s for it.", error, patience_s)
                is_told = True
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, LONGEST_NAP_S)
        else:
            if is_told:
                _log().warning("The manifest answers again, after %.0f s.", time.monotonic() - began_s)
            return answer


def _log() -> logging.Logger:
    return logging.getLogger(__name__)
