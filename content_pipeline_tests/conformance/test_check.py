"""The check finds what must never be. Each test breaks one thing behind the manifest's back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest.check import Invariant
from content_pipeline.manifest.manifest import Manifest
from content_pipeline_tests.conformance.manifests import Clock, add, claim, database_of, fail, opened, succeed


@pytest.fixture
def manifest(url: str, clock: Clock) -> Iterator[Manifest]:
    """One that need not end sound."""
    with opened(url, clock) as found:
        yield found


def _one_of_each(manifest: Manifest) -> None:
    add(manifest, "done", "running", "postponed", "failed", "waiting")
    succeed(manifest, claim(manifest))
    claim(manifest)
    fail(manifest, claim(manifest), RetryPolicy.TRANSIENT)
    fail(manifest, claim(manifest), RetryPolicy.PERMANENT)


IS = "WHERE job_id = (SELECT job_id FROM job_items WHERE status = '{}' ORDER BY job_id LIMIT 1)"
RUNNING, DONE, FAILED = IS.format("running"), IS.format("succeeded"), IS.format("failed")
POSTPONED = "WHERE job_id = (SELECT job_id FROM job_items WHERE status = 'pending' AND claim_count = 1)"
WAITING = "WHERE status = 'pending' AND claim_count = 0"

BREAKS = {
    "a status without a move": (Invariant.CHAIN, f"UPDATE job_items SET status = 'cancelled' {POSTPONED}"),
    "an illegal move": (Invariant.CHAIN, f"UPDATE state_transitions SET from_state = 'failed' {DONE} AND id > 1"),
    "a gap in the history": (
        Invariant.CHAIN,
        f"UPDATE state_transitions SET to_state = 'cancelled' {FAILED} AND id < 7",
    ),
    "no history": (Invariant.CHAIN, f"DELETE FROM state_transitions {DONE}"),
    "a lost attempt": (Invariant.CLAIMS, f"DELETE FROM attempts {DONE}"),
    "a claim that was not counted": (Invariant.CLAIMS, f"UPDATE job_items SET claim_count = 2 {DONE}"),
    "running without a lease": (Invariant.LEASE, f"UPDATE job_items SET lease_token = NULL {RUNNING}"),
    "a lease that never ends": (Invariant.LEASE, f"UPDATE job_items SET lease_expires_at = NULL {RUNNING}"),
    "a lease on what does not run": (Invariant.LEASE, f"UPDATE job_items SET worker_id = 'me' {WAITING}"),
    "an open attempt on what does not run": (Invariant.LEASE, f"UPDATE attempts SET ended_at = NULL {DONE}"),
    "no open attempt on what runs": (Invariant.LEASE, f"UPDATE attempts SET ended_at = started_at {RUNNING}"),
    "too many attempts": (Invariant.BUDGET, f"UPDATE job_items SET max_attempts = 0 {DONE}"),
    "too many crashes": (Invariant.BUDGET, f"UPDATE job_items SET crash_count = 3 {DONE}"),
    "a refund of what was never spent": (Invariant.BUDGET, f"UPDATE job_items SET attempt_count = -1 {DONE}"),
    "waiting with no attempt left": (Invariant.BUDGET, f"UPDATE job_items SET max_attempts = 1 {POSTPONED}"),
    "an end without a time": (Invariant.ENDED, f"UPDATE job_items SET completed_at = NULL {DONE}"),
    "a lost count": (Invariant.COUNTS, "DELETE FROM job_counts WHERE status = 'failed'"),
    "a count of nothing": (Invariant.COUNTS, "UPDATE job_counts SET jobs = jobs + 1 WHERE status = 'pending'"),
    "a lost job": (Invariant.COUNTS, f"DELETE FROM job_items {WAITING}"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_check_finds(manifest: Manifest, name: str) -> None:
    _one_of_each(manifest)
    assert manifest.check() == []
    invariant, statement = BREAKS[name]
    with database_of(manifest).engine.connect() as connection:
        assert connection.exec_driver_sql(statement).rowcount >= 1
        connection.commit()
    found = manifest.check()
    assert invariant in {violation.invariant for violation in found}
    assert all(violation.detail for violation in found)


@pytest.mark.parametrize("seconds", [-1, 0, 26, 34, 3600])
def test_the_check_finds_a_back_off_out_of_bounds(manifest: Manifest, clock: Clock, seconds: int) -> None:
    from content_pipeline.manifest.schema import job_items

    (job_id,) = add(manifest, "a")
    fail(manifest, claim(manifest), RetryPolicy.TRANSIENT)
    moved = sa.update(job_items).values(available_at=clock.time + timedelta(seconds=seconds))
    with database_of(manifest).engine.connect() as connection:
        connection.execute(moved)
        connection.commit()
    (violation,) = manifest.check()
    assert (violation.invariant, violation.job_id) == (Invariant.BACKOFF, job_id)


def test_the_check_finds_outputs_that_are_gone_or_changed(manifest: Manifest, tmp_path: Path) -> None:
    def digest_of(path: str) -> str | None:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if Path(path).exists() else None

    kept, changed, gone = (tmp_path / name for name in ("kept", "changed", "gone"))
    for file in (kept, changed, gone):
        file.write_text("made")
    hashes = {str(file): str(digest_of(str(file))) for file in (kept, changed, gone)}
    (job_id,) = add(manifest, "a")
    succeed(manifest, claim(manifest), output_files=list(hashes), output_hashes=hashes)
    assert manifest.check(digest_of) == []
    changed.write_text("something else")
    gone.unlink()
    assert manifest.check() == [], "files are looked at only when asked for"
    found = manifest.check(digest_of)
    assert {(violation.invariant, violation.job_id) for violation in found} == {(Invariant.OUTPUTS, job_id)}
    assert sorted(violation.detail.split()[0] for violation in found) == sorted([str(changed), str(gone)])
