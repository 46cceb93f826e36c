"""Which jobs an operation is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.schema import job_items


@dataclass(frozen=True)
class JobFilter:
    """Which jobs an order is about; nothing said means all that it can apply to."""

    job_ids: Sequence[str] | None = None
    kind: str | None = None
    subject: str | None = None
    library: str | None = None
    status: State | None = None
    error_code: str | None = None
    video_key: str | None = None
    run_id: str | None = None
    since: datetime | None = None
    if_possible: bool = False  # of named jobs, move those that still allow it, and leave the rest

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        columns = job_items.c
        given = {
            columns.kind: self.kind,
            columns.subject: self.subject,
            columns.library: self.library,
            columns.status: self.status,
            columns.error_code: self.error_code,
            columns.video_key: self.video_key,
            columns.run_id: self.run_id,
        }
        found = [column == value for column, value in given.items() if value is not None]
        if self.job_ids is not None:
            found.append(columns.job_id.in_(self.job_ids))
        if self.since is not None:
            found.append(columns.updated_at >= self.since)
        return found


ALL = JobFilter()
