"""The queue of launches: what a run launcher puts in, and the process that executes runs takes out.

Another launcher brings another implementation (a Redis list, say); the local one is a folder of files. Its other half,
what Dagster calls, is a subclass of `QueueRunLauncher` (`queue_launcher.py`); what takes launches out is like
`local/supervisor.py`.
"""

from __future__ import annotations

from typing import Protocol

from content_pipeline.execution.launch import Launch


class LaunchQueue(Protocol):
    """The runs that were launched and have not ended. A launch stays in the queue while its run is executed."""

    @property
    def id(self) -> str:
        """Which queue this is: another host has another one, though both have the same Dagster and the same paths."""

    def add(self, launch: Launch, durable: bool = True) -> None:
        """Add or replace the launch of a run. Unless `durable`, the change may be lost in a power cut."""

    def get(self, run_id: str) -> Launch | None: ...

    def run_ids(self) -> frozenset[str]:
        """Of all launches; cheap enough to be called several times a second."""

    def remove(self, run_id: str) -> None:
        """Forget the launch, and the request to stop it."""

    def ask_to_stop(self, run_id: str) -> None: ...

    def asked_to_stop(self) -> frozenset[str]: ...


def has_work_for(launch_queue: LaunchQueue, database: str) -> bool:
    """Whether a launch is in the queue that a supervisor of this database may execute."""
    launches = (launch_queue.get(run_id) for run_id in launch_queue.run_ids())
    return any(launch is not None and launch.database in (None, database) for launch in launches)
