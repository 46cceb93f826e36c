"""What a run printed, for the stdout and stderr tabs of Dagster's UI: read from the log file that its worker writes.

Dagster's own capture starts processes for every run, and leaves them behind when the run is killed. Here nothing is
captured a second time: a worker's output goes to one file from its first line on, and both tabs show that file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from content_pipeline.dagster_runtime.names import job_tag_of
from content_pipeline.dagster_runtime.private_api import (
    CapturedLogContext,
    CapturedLogMetadata,
    CapturedLogSubscription,
    ComputeIOType,
    ComputeLogManager,
    ConfigurableClass,
    ConfigurableClassData,
)
from content_pipeline.errors import printable
from content_pipeline.execution.assignment import log_path
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.settings import load

LOOK_AGAIN_S = 1.0


class RunLogs(ComputeLogManager[Any], ConfigurableClass):
    """A log key begins with the run's id; whichever step it names, the run has one file."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        self._inst_data = inst_data
        self._followed: set[CapturedLogSubscription] = set()
        self._guard = threading.Lock()
        self._disposed = threading.Event()

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> RunLogs:
        return cls(inst_data=inst_data, **config_value)

    # --- in a run: its output goes to the file already

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Iterator[CapturedLogContext]:
        yield CapturedLogContext(log_key=log_key)

    @contextmanager
    def open_log_stream(self, log_key: Sequence[str], io_type: ComputeIOType) -> Iterator[IO[bytes] | None]:
        yield None

    # --- in the webserver

    def is_capture_complete(self, log_key: Sequence[str]) -> bool:
        run = self._instance.get_run_by_id(log_key[0]) if log_key else None
        return run is None or run.is_finished

    def get_log_data_for_type(
        self, log_key: Sequence[str], io_type: ComputeIOType, offset: int, max_bytes: int | None
    ) -> tuple[bytes | None, int]:
        path = self._path(log_key)
        if path is None:
            return None, offset
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read() if max_bytes is None else file.read(max_bytes)
        return data, offset + len(data)

    def get_log_metadata(self, log_key: Sequence[str]) -> CapturedLogMetadata:
        path = self._path(log_key)
        where = None if path is None else printable(path)
        return CapturedLogMetadata(stdout_location=where, stderr_location=where)

    def get_log_keys_for_log_key_prefix(
        self, log_key_prefix: Sequence[str], io_type: ComputeIOType
    ) -> Sequence[list[str]]:
        """Of sensors, schedules and backfills, which print nothing here."""
        return []

    def delete_logs(self, log_key: Sequence[str] | None = None, prefix: Sequence[str] | None = None) -> None:
        """Left to retention, which deletes old logs by their age: a log may still explain a job of the manifest."""

    def _path(self, log_key: Sequence[str]) -> Path | None:
        """The file of a run: by its own name if it was launched, by its job's if a command executed it."""
        if not log_key:
            return None
        settings = load().settings
        launched = log_path(settings, f"run-{log_key[0]}")
        if launched.parent.name == "logs" and launched.is_file():
            return launched
        run = self._instance.get_run_by_id(log_key[0])
        tag = None if run is None else job_tag_of(run.tags)
        if tag is None:
            return None
        job_id, attempt = parse_job_tag(tag)
        path = log_path(settings, f"{job_id}-{attempt}")
        return path if path.is_file() else None

    # --- following a run that goes on

    def subscribe(self, log_key: Sequence[str], cursor: str | None = None) -> CapturedLogSubscription:
        subscription = CapturedLogSubscription(self, log_key, cursor)
        with self._guard:
            is_first = not self._followed
            self._followed.add(subscription)
        if is_first:
            threading.Thread(target=self._follow, name="run-logs", daemon=True).start()
        return subscription

    def unsubscribe(self, subscription: CapturedLogSubscription) -> None:
        with self._guard:
            self._followed.discard(subscription)

    def dispose(self) -> None:
        self._disposed.set()

    def _follow(self) -> None:
        """Until nobody looks any more. What is complete is fetched once more: its last lines come before its end."""
        while not self._disposed.wait(LOOK_AGAIN_S):
            with self._guard:
                followed = set(self._followed)
                if not followed:
                    return
            for one in followed:
                ended = self.is_capture_complete(one.log_key)
                one.fetch()
                if ended:
                    one.complete()
                    self.unsubscribe(one)
