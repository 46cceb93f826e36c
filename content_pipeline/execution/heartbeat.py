"""Keeping the leases of active jobs, and hearing from the manifest which of them are lost or to be stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from content_pipeline.errors import LostLease
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.rescue import Moment
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Renewal

NOTHING = Renewal(frozenset(), frozenset())


class Heartbeat:
    def __init__(self, manifest: Manifest, worker_id: str, every_s: float) -> None:
        self._manifest = manifest
        self._worker_id = worker_id
        self._every_s = every_s
        self._last = Moment()

    def restart(self) -> None:
        """The first lease after an idle time is fresh."""
        self._last = Moment()

    def beat(self, active: Iterable[ActiveJob]) -> Renewal:
        """Renew all leases when it is time; says which are lost, and which jobs a person asked to stop."""
        leases = [one.lease for one in active if one.lease is not None]
        if not leases or not self._last.is_past(self._every_s):
            return NOTHING
        renewal = self._manifest.jobs.renew(self._worker_id, leases)
        self._last = Moment()
        for one in active:
            if one.lease is not None and one.unsaved_progress and one.lease.job_id not in renewal.lost:
                self._save_progress(one)
        return renewal

    def _save_progress(self, active: ActiveJob) -> None:
        assert active.lease is not None and active.report.fraction is not None, "there is progress to save"
        progress = {"stage": active.report.stage, "fraction": round(active.report.fraction, 2)}
        with contextlib.suppress(LostLease):  # the next beat says so, and the child is stopped
            self._manifest.jobs.report_progress(active.lease, progress)
        active.unsaved_progress = False
