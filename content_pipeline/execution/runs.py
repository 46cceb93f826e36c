"""What execution asks of Dagster's runs, and nothing more: the child executes one, its parent speaks of them.

Implemented in `dagster_runtime/runs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from content_pipeline.execution.messages import RunStatus
from content_pipeline.execution.run_context import RunContext
from content_pipeline.settings import Settings


class RunHandle(Protocol):
    """One run, in the process that executes it."""

    @property
    def run_id(self) -> str: ...

    @property
    def partition_key(self) -> str | None: ...

    @property
    def status(self) -> RunStatus: ...

    def finished_stages(self) -> Mapping[str, str]:
        """Of a run that goes on: the stages that another process finished, and their keys."""

    def execute(self, run_context: RunContext) -> RunStatus:
        """Execute it here; one that was started before goes on after the steps that it finished."""

    def close(self) -> None: ...


class RunBackend(Protocol):
    """Every process opens records of its own: nothing that is open crosses a fork."""

    def prepare(self) -> None:
        """Build once, before children are forked, what each of them needs."""

    def create(self, job_name: str, partitions: str, partition_key: str, job_tag: str) -> RunHandle:
        """A run that this process executes by itself."""

    def find(self, run_id: str) -> RunHandle | None: ...

    def announce_cancel(self, run_id: str) -> None:
        """A run is about to be stopped on purpose; unannounced, it would count as a failure."""

    def terminated(self, run_ids: Collection[str]) -> frozenset[str]:
        """Those of these runs whose end a person asked for, by Dagster's records: from whichever host."""

    def end_as_failed(self, run_id: str, why: str) -> None: ...

    def end_as_cancelled(self, run_id: str, why: str) -> None: ...

    def note(self, run_id: str, message: str) -> None:
        """Add a line to the run's log."""


class NoRuns:
    """For a worker whose jobs need no run: Dagster is not even loaded."""

    def prepare(self) -> None:
        return None

    def create(self, job_name: str, partitions: str, partition_key: str, job_tag: str) -> RunHandle:
        raise NotImplementedError("this worker executes no runs")

    def find(self, run_id: str) -> RunHandle | None:
        return None

    def announce_cancel(self, run_id: str) -> None:
        return None

    def terminated(self, run_ids: Collection[str]) -> frozenset[str]:
        return frozenset()

    def end_as_failed(self, run_id: str, why: str) -> None:
        return None

    def end_as_cancelled(self, run_id: str, why: str) -> None:
        return None

    def note(self, run_id: str, message: str) -> None:
        return None


MakeRuns = Callable[[Settings], RunBackend]
