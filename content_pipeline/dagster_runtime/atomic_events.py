"""An event of Dagster and everything that is derived from it, stored in one transaction: all of it, or nothing.

Stock Dagster inserts an event, and then updates the latest materialization of its asset, its tags and its checks in
transactions of their own. With several workers the one that updates last wins, and it may hold the older event. A
step that reads its inputs in between is recorded as made from an older one, and the UI calls it "Unsynced" for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import dagster as dg
import sqlalchemy as sa

from content_pipeline.dagster_runtime import private_api as internals


class AtomicEventLog(internals.SqlEventLogStorage):
    """To be put before a SQL event log of Dagster, whose connections come from `_connect`.

    A subclass says how a transaction is begun in which the events of an asset get their numbers in the order in which
    they are committed. While one is open, whatever else its thread asks of this storage belongs to it.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        self._of_thread = threading.local()
        super().__init__(*args, **given)  # type: ignore[no-untyped-call]  # of Dagster's mix-in

    def _begin(self, asset_keys: Sequence[str]) -> AbstractContextManager[sa.Connection]:
        """A transaction that is about to store events of these assets."""
        raise NotImplementedError

    def _new_connection(self) -> AbstractContextManager[sa.Connection]:
        raise NotImplementedError

    def store_event(self, event: dg.EventLogEntry) -> None:
        with self._transaction([event]):
            super().store_event(event)

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        with self._transaction(events):
            super().store_event_batch(events)

    @contextmanager
    def _transaction(self, events: Sequence[dg.EventLogEntry]) -> Iterator[None]:
        if self._open is not None:  # a batch stores its events one by one
            yield
            return
        with self._begin(_asset_keys(events)) as connection:
            self._of_thread.connection = connection
            try:
                yield
            finally:
                del self._of_thread.connection

    @contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        if self._open is not None:
            yield self._open
            return
        with self._new_connection() as connection:
            yield connection

    @property
    def _open(self) -> sa.Connection | None:
        return getattr(self._of_thread, "connection", None)


def _asset_keys(events: Sequence[dg.EventLogEntry]) -> list[str]:
    """Sorted: two that lock the same ones cannot deadlock."""
    keys = (event.dagster_event.asset_key for event in events if event.dagster_event is not None)
    return sorted({key.to_string() for key in keys if key is not None})
