"""What is asked often is answered by an index, however large the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.claim import can_be_done_here, due_query
from content_pipeline.manifest.counts import counts_query
from content_pipeline.manifest.database import Transaction
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest
from content_pipeline.manifest.rescue import orphans_query
from content_pipeline.manifest.schema import job_items
from content_pipeline_tests.conformance.manifests import Clock, database_of, many, plan_of

ROWS = 20_000


def claim_query(tx: Transaction, state: State) -> sa.Select[Any]:
    return due_query(tx, ClaimRequest("w"), state, [can_be_done_here(tx.connection)]).limit(1)


QUERIES: dict[str, tuple[str, Callable[[Transaction], sa.Select[Any]]]] = {
    "claim": ("jobs_to_claim", lambda tx: claim_query(tx, State.PENDING)),
    "claim of dirty": ("jobs_to_claim", lambda tx: claim_query(tx, State.DIRTY)),
    "rescue": ("jobs_to_rescue", orphans_query),
    "jobs of a worker": (
        "jobs_of_worker",
        lambda tx: sa.select(job_items).where(job_items.c.worker_id.in_(["w"]), job_items.c.status == State.RUNNING),
    ),
    "subject": (
        "one_job_per_subject",
        lambda tx: sa.select(job_items).where(
            job_items.c.kind == PROCESSING, job_items.c.subject == "/games/000001.mp4"
        ),
    ),
}
SQLITE_NAMES = {"one_job_per_subject": "sqlite_autoindex_job_items"}


def test_claim_rescue_and_counts_use_their_indexes(manifest: Manifest, clock: Clock) -> None:
    manifest.jobs.enqueue(many(ROWS))
    jobs = manifest.jobs.claim(ClaimRequest("worker", 1000))
    manifest.jobs.cancel(JobFilter(job_ids=[job.job_id for job in manifest.jobs.list(limit=3000, offset=5000)]))
    clock.pass_s(1)
    with database_of(manifest).engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE")
        connection.commit()
        tx = Transaction(connection, clock.time)
        for name, (index, query) in QUERIES.items():
            plan = plan_of(manifest, query(tx))
            expected = (
                SQLITE_NAMES.get(index, index) if database_of(manifest).engine.dialect.name == "sqlite" else index
            )
            assert expected in plan, f"{name}:\n{plan}"
            assert "Seq Scan" not in plan and "SCAN job_items" not in plan, f"{name}:\n{plan}"
            assert "TEMP B-TREE" not in plan and "Sort" not in plan, f"{name}:\n{plan}"
    assert "job_items" not in plan_of(manifest, counts_query()), "counts do not look at the jobs"
    assert len(jobs) == 1000


@pytest.mark.parametrize("number", [1, 5])
def test_counts_read_a_handful_of_rows_whatever_the_number_of_jobs(manifest: Manifest, number: int) -> None:
    manifest.jobs.enqueue(many(number * 1000))
    with database_of(manifest).engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM job_counts").scalar() == 1
