"""A run that has succeeded stays so, whatever a process says of it that was cut off and comes back.

Its job was rescued, and another host went on with the run and ended it; the late process, whose result is refused,
fails the same run. In the manifest that changes nothing, and it must not in Dagster's records.
"""

from __future__ import annotations

from datetime import datetime

import dagster as dg

from content_pipeline.dagster_runtime import private_api as internals


class LastingSuccess(internals.RunStorage):
    """In front of a run storage."""

    def handle_run_event(self, run_id: str, event: dg.DagsterEvent, update_timestamp: datetime | None = None) -> None:
        succeeded = dg.RunsFilter(run_ids=[run_id], statuses=[dg.DagsterRunStatus.SUCCESS])
        if not self.get_runs(succeeded, limit=1):
            super().handle_run_event(run_id, event, update_timestamp)  # type: ignore[safe-super]
