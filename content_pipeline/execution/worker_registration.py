"""A worker's row in the manifest: added with its first heartbeat, removed when it ends. For people to look at."""

from __future__ import annotations

from content_pipeline.execution.rescue import Moment
from content_pipeline.execution.worker_identity import gone_among
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.workers import WorkerInfo
from content_pipeline.settings import QueueSettings
from content_pipeline.system.process_identity import ProcessIdentity
from content_pipeline.version import __version__

COMMAND, WORKER = "command", "worker"  # `process` and its like; one that executes the runs that Dagster launches


class WorkerRegistration:
    def __init__(self, manifest: Manifest, worker_id: str, role: str, slots: int, queue: QueueSettings) -> None:
        process = ProcessIdentity.parse(worker_id)
        assert process is not None, "a worker is a process"
        self._manifest = manifest
        self._info = WorkerInfo(
            worker_id, process.host, process.pid, __version__, role, slots, queue.lease_s, queue.capabilities
        )
        self._every_s = queue.heartbeat_s
        self._last: Moment | None = None

    def beat(self) -> None:
        """When it is time; the first one also removes those of this host that are gone."""
        if self._last is not None and not self._last.is_past(self._every_s):
            return
        if self._last is None:
            gone = gone_among(row.info.worker_id for row in self._manifest.workers.all())
            if gone:
                self._manifest.workers.remove(gone)
        self._manifest.workers.beat(self._info)
        self._last = Moment()

    def end(self) -> None:
        if self._last is not None:
            self._manifest.workers.remove([self._info.worker_id])
            self._last = None
