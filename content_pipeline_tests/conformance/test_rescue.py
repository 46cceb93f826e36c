"""Bringing orphans back."""

from __future__ import annotations

from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest
from content_pipeline_tests.conformance.manifests import LEASE_S, Clock, add, claim, dump, moves


def test_a_job_is_rescued_when_its_lease_has_run_out_and_not_before(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    claim(manifest, "gone")
    clock.pass_s(LEASE_S)
    assert manifest.jobs.rescue() == []
    clock.pass_s(0.001)
    assert [job.job_id for job in manifest.jobs.rescue()] == [job_id]
    job = manifest.jobs.get(job_id)
    assert (job.status, job.attempt_count, job.crash_count) == (State.PENDING, 0, 0)
    assert job.last_error == "the worker gone is gone"
    assert moves(manifest, job_id) == ["pending->running", "running->pending"]
    assert manifest.jobs.attempts(job_id)[0].outcome == "rescued"
    before = dump(manifest)
    assert manifest.jobs.rescue() == []
    assert dump(manifest) == before


def test_a_long_job_that_is_renewed_is_never_rescued(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a")
    job = claim(manifest)
    for _ in range(100):
        clock.pass_s(LEASE_S - 1)
        assert manifest.jobs.renew("worker", [job.lease]).lost == frozenset()
        assert manifest.jobs.rescue() == []


def test_a_job_that_waits_long_is_never_rescued(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a")
    clock.pass_s(LEASE_S * 1000)
    assert manifest.jobs.rescue(["worker"]) == []


def test_the_jobs_of_a_worker_known_to_be_dead_are_rescued_at_once(manifest: Manifest) -> None:
    add(manifest, "a", "b", "c")
    of_the_dead = {job.job_id for job in manifest.jobs.claim(ClaimRequest("dead", 2))}
    claim(manifest, "alive")
    assert sorted(manifest.jobs.workers()) == ["alive", "dead"]
    assert {job.job_id for job in manifest.jobs.rescue(["dead", "unheard of"])} == of_the_dead
    assert manifest.jobs.workers() == ["alive"]


def test_a_job_is_rescued_once_although_both_reasons_hold(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    claim(manifest, "dead")
    clock.pass_s(LEASE_S + 1)
    assert len(manifest.jobs.rescue(["dead"])) == 1
    assert [one.outcome for one in manifest.jobs.attempts(job_id)] == ["rescued"]


def test_a_job_whose_worker_died_out_of_sight_is_not_blamed(manifest: Manifest) -> None:
    """A power cut, or a person who kills the command: nothing that the recording did."""
    (job_id,) = add(manifest, "a")
    for _ in range(9):
        claim(manifest, "dead")
        manifest.jobs.rescue(["dead"])
    assert (manifest.jobs.get(job_id).status, manifest.jobs.get(job_id).crash_count) == (State.PENDING, 0)
    manifest.jobs.release(claim(manifest, "alive").lease, "back")
    claim(manifest, "dead")
    manifest.jobs.rescue(["dead"])
    assert manifest.jobs.get(job_id).status is State.PENDING


def test_a_job_that_takes_its_machine_down_every_time_is_quarantined(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    for _ in range(10):
        claim(manifest, "dead")
        manifest.jobs.rescue(["dead"])
    assert (manifest.jobs.get(job_id).status, manifest.jobs.get(job_id).error_code) == (State.FAILED, "crashed")


def test_a_job_that_took_two_workers_with_it_is_quarantined(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    for _ in range(2):
        manifest.jobs.crashed(claim(manifest, "watched").lease, "killed by SIGSEGV")
    job = manifest.jobs.get(job_id)
    assert (job.status, job.error_code, job.crash_count) == (State.FAILED, "crashed", 2)
    assert manifest.jobs.claim(ClaimRequest("next")) == []
    assert manifest.jobs.retry() == 1
    assert claim(manifest).crash_count == 0


def test_what_a_rescue_would_bring_back_can_be_seen_without_doing_it(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a", "b", "c")
    late, of_the_dead = claim(manifest, "asleep"), claim(manifest, "dead")
    clock.pass_s(LEASE_S)
    fresh = claim(manifest, "alive")
    before = dump(manifest)
    assert manifest.jobs.stale() == []
    assert [job.job_id for job in manifest.jobs.stale(["dead", "unheard of"])] == [of_the_dead.job_id]
    clock.pass_s(0.001)
    assert {job.job_id for job in manifest.jobs.stale(["dead"])} == {late.job_id, of_the_dead.job_id}
    assert dump(manifest) == before
    assert {job.job_id for job in manifest.jobs.rescue(["dead"])} == {late.job_id, of_the_dead.job_id}
    assert manifest.jobs.stale(["dead"]) == []
    assert manifest.jobs.get(fresh.job_id).status is State.RUNNING
