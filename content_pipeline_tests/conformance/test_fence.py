"""A worker that lost its lease learns it, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.errors import LostLease, RetryPolicy
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure, JobResult, Lease, Renewal
from content_pipeline.manifest.publications import Publication
from content_pipeline_tests.conformance.manifests import LEASE_S, Clock, add, claim, dump, succeed

Write = Callable[[Manifest, Lease], object]


FILE = Publication(Path("/out/a.mp4"), "a-key", "montage.mp4", "0" * 64)


def _failing(code: str, policy: RetryPolicy) -> Write:
    return lambda manifest, lease: manifest.jobs.fail(lease, JobFailure(code, "no", policy))


WRITES: dict[str, Write] = {
    "report_progress": lambda manifest, lease: manifest.jobs.report_progress(lease, {"percent": 50}),
    "report_run": lambda manifest, lease: manifest.jobs.report_run(lease, "run", "key"),
    "check_lease": lambda manifest, lease: manifest.publications.under(lease).check_lease(),
    "announce": lambda manifest, lease: manifest.publications.under(lease).announce([FILE]),
    "settle": lambda manifest, lease: manifest.publications.under(lease).settle([FILE], []),
    "succeed": lambda manifest, lease: manifest.jobs.succeed(lease, JobResult(results={"mine": 1})),
    "fail": _failing("disk_full", RetryPolicy.ENVIRONMENTAL),
    "fail for good": _failing("no_audio", RetryPolicy.PERMANENT),
    "crashed": lambda manifest, lease: manifest.jobs.crashed(lease, "died"),
    "release": lambda manifest, lease: manifest.jobs.release(lease, "stopping"),
    "stop_cancelled": lambda manifest, lease: manifest.jobs.stop_cancelled(lease),
}


def _rescued(manifest: Manifest, clock: Clock, job: Job) -> None:
    clock.pass_s(LEASE_S + 1)
    assert [one.job_id for one in manifest.jobs.rescue()] == [job.job_id]


def _rescued_and_claimed_by_another(manifest: Manifest, clock: Clock, job: Job) -> None:
    _rescued(manifest, clock, job)
    claim(manifest, "another")


def _rescued_and_claimed_by_the_same(manifest: Manifest, clock: Clock, job: Job) -> None:
    _rescued(manifest, clock, job)
    claim(manifest, job.worker_id or "")


def _already_succeeded(manifest: Manifest, clock: Clock, job: Job) -> None:
    succeed(manifest, job)


def _already_released(manifest: Manifest, clock: Clock, job: Job) -> None:
    manifest.jobs.release(job.lease, "stopping")


def _everything_forgotten(manifest: Manifest, clock: Clock, job: Job) -> None:
    manifest.reset()


LOSSES = (
    _rescued,
    _rescued_and_claimed_by_another,
    _rescued_and_claimed_by_the_same,
    _already_succeeded,
    _already_released,
    _everything_forgotten,
)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__.strip("_"))
def test_no_write_with_a_lost_lease_changes_anything(
    manifest: Manifest, clock: Clock, loss: Callable[[Manifest, Clock, Job], None]
) -> None:
    add(manifest, "a")
    job = claim(manifest, "first")
    loss(manifest, clock, job)
    before = dump(manifest)
    for name, write in WRITES.items():
        with pytest.raises(LostLease):
            write(manifest, job.lease)
        assert dump(manifest) == before, name
    clock.pass_s(1)
    assert manifest.jobs.renew("first", [job.lease]).lost == {job.job_id}
    assert dump(manifest) == before


@pytest.mark.parametrize("wrong", [{"token": "0" * 26}, {"claim_number": 2}, {"job_id": "0" * 26}], ids=str)
def test_a_lease_must_match_in_every_part(manifest: Manifest, wrong: dict[str, Any]) -> None:
    add(manifest, "a")
    lease = replace(claim(manifest).lease, **wrong)
    before = dump(manifest)
    for write in WRITES.values():
        with pytest.raises(LostLease):
            write(manifest, lease)
    assert dump(manifest) == before


def test_a_late_worker_may_still_finish_what_nobody_else_was_given(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    job = claim(manifest)
    clock.pass_s(LEASE_S * 10)
    succeed(manifest, job)
    assert manifest.jobs.get(job_id).status is State.SUCCEEDED


def test_renewing_keeps_the_leases_named_and_no_others(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a", "b", "c")
    kept, forgotten, lost = manifest.jobs.claim(ClaimRequest("worker", 3))
    succeed(manifest, lost)
    clock.pass_s(60)
    renewal = manifest.jobs.renew("worker", [kept.lease, lost.lease])
    assert renewal == Renewal(lost=frozenset({lost.job_id}), cancelled=frozenset())
    clock.pass_s(60)
    # A job whose claim was never heard of by its worker is not kept alive by the others.
    assert [job.job_id for job in manifest.jobs.rescue()] == [forgotten.job_id]
    assert manifest.jobs.get(kept.job_id).status is State.RUNNING


def test_renewing_nothing_loses_nothing(manifest: Manifest) -> None:
    assert manifest.jobs.renew("worker", []).lost == frozenset()


def test_a_lease_is_renewed_by_its_own_worker_only(manifest: Manifest) -> None:
    add(manifest, "a")
    job = claim(manifest, "mine")
    assert manifest.jobs.renew("thine", [job.lease]).lost == {job.job_id}


def test_publishing_leaves_a_whole_lease(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a")
    job = claim(manifest)
    clock.pass_s(LEASE_S - 1)
    manifest.publications.under(job.lease).settle([FILE], [])
    clock.pass_s(LEASE_S - 1)
    assert manifest.jobs.rescue() == []
    succeed(manifest, job)
