"""How work comes in, and into a worker's hands."""

from __future__ import annotations

import os

import pytest

from content_pipeline.errors import BadSettings, RetryPolicy
from content_pipeline.job_kinds import CALIBRATION, PROCESSING
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest
from content_pipeline_tests.conformance.manifests import LEASE_S, Clock, add, claim, dump, fail, moves, succeed


def test_asking_twice_for_a_subject_is_asking_once(manifest: Manifest) -> None:
    request = JobRequest("/games/a.mp4", "/games")
    assert manifest.jobs.enqueue([request, request]) == 1
    before = dump(manifest)
    assert manifest.jobs.enqueue([request]) == 0
    assert dump(manifest) == before


def test_one_subject_may_have_jobs_of_several_kinds_also_of_one_of_another_version(manifest: Manifest) -> None:
    kinds = [CALIBRATION, "from the future", PROCESSING]
    requests = [JobRequest("/games/a.mp4", "/games", kind=kind) for kind in kinds]
    assert manifest.jobs.enqueue(requests) == len(kinds)
    assert sorted(job.kind for job in manifest.jobs.list(JobFilter(subject="/games/a.mp4"))) == kinds
    assert [manifest.jobs.counts(kind)[State.PENDING] for kind in kinds] == [1, 1, 1]
    assert [manifest.jobs.claim(ClaimRequest("worker", 9, kind))[0].kind for kind in kinds] == kinds


def test_asking_for_nothing_changes_nothing(manifest: Manifest) -> None:
    assert manifest.jobs.enqueue([]) == 0
    assert manifest.jobs.claim(ClaimRequest("worker")) == []


def test_everything_asked_for_comes_back(manifest: Manifest, clock: Clock) -> None:
    asked = JobRequest("/g/ä 🎮.mp4", "/g", PROCESSING, "key", 7, 5, 4, 2**40, {"why": "ünïcode 🎬", "n": [1]})
    manifest.jobs.enqueue([asked])
    (job,) = manifest.jobs.list()
    assert {name: getattr(job, name) for name in vars(asked)} == vars(asked)
    assert (job.status, job.claim_count, job.attempt_count, job.crash_count) == (State.PENDING, 0, 0, 0)
    assert job.available_at == job.created_at == job.updated_at == clock.time
    assert (job.stage_keys, job.output_files, job.output_hashes, job.results, job.cost) == ({}, [], {}, {}, {})
    assert (job.progress, job.lease_token, job.error_code, job.completed_at) == (None, None, None, None)


def test_paths_that_are_no_utf8_come_back_as_they_were(manifest: Manifest) -> None:
    path, library = os.fsdecode(b"/games/\xff\xfe caf\xe9.mp4"), os.fsdecode(b"/games\xe9")
    manifest.jobs.enqueue([JobRequest(path, library)])
    assert manifest.jobs.enqueue([JobRequest(path, library)]) == 0
    job = claim(manifest)
    assert (job.subject, job.library) == (path, library)
    assert os.fsencode(job.subject) == b"/games/\xff\xfe caf\xe9.mp4"
    found = manifest.jobs.find(PROCESSING, path)
    assert found is not None and found.job_id == job.job_id
    assert manifest.jobs.list(JobFilter(library=library)) == [found]
    succeed(manifest, job, output_files=[path], output_hashes={path: "0" * 64})
    assert manifest.jobs.get(job.job_id).output_files == [path]


def test_a_job_without_a_single_attempt_is_refused() -> None:
    with pytest.raises(BadSettings, match="at least one attempt"):
        JobRequest("/games/a.mp4", "/games", max_attempts=0)
    with pytest.raises(BadSettings, match="at least one attempt"):
        JobRequest("/games/a.mp4", "/games", max_crashes=0)


def test_the_first_asked_is_the_first_claimed(manifest: Manifest) -> None:
    add(manifest, "c", "a", "b")
    assert [job.subject for job in manifest.jobs.claim(ClaimRequest("worker", 3))] == [
        "/games/c",
        "/games/a",
        "/games/b",
    ]


def test_a_higher_priority_goes_first(manifest: Manifest, clock: Clock) -> None:
    for name, priority in (("low", -5), ("normal", 0), ("high", 5)):
        add(manifest, name, priority=priority)
        clock.pass_s(1)
    assert [claim(manifest).subject for _ in range(3)] == ["/games/high", "/games/normal", "/games/low"]


def test_dirty_and_pending_jobs_wait_in_one_line(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "first")
    succeed(manifest, claim(manifest))
    clock.pass_s(1)
    add(manifest, "second")
    clock.pass_s(1)
    manifest.jobs.mark_dirty(JobFilter(status=State.SUCCEEDED), "a setting changed")
    add(manifest, "important", priority=1)
    names = [job.subject for job in manifest.jobs.claim(ClaimRequest("worker", 3))]
    assert names == ["/games/important", "/games/second", "/games/first"]


def test_a_claim_gives_a_lease_and_counts_the_attempt(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    clock.pass_s(5)
    job = claim(manifest, "me")
    assert job == manifest.jobs.get(job_id)
    assert (job.status, job.worker_id, job.claim_count, job.attempt_count) == (State.RUNNING, "me", 1, 1)
    assert job.started_at == job.last_heartbeat == clock.time
    assert job.lease_expires_at is not None
    assert (job.lease_expires_at - clock.time).total_seconds() == LEASE_S
    assert moves(manifest, job_id) == ["pending->running"]
    (attempt,) = manifest.jobs.attempts(job_id)
    assert (attempt.number, attempt.worker_id, attempt.ended_at, attempt.outcome) == (1, "me", None, None)


def test_a_claim_says_which_settings_it_is_made_with(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    (job,) = manifest.jobs.claim(ClaimRequest("worker", config_hash_of=lambda job: "c" * 64))
    assert job == manifest.jobs.get(job_id)
    assert job.config_hash == "c" * 64


def test_a_claimed_job_is_not_claimed_again(manifest: Manifest) -> None:
    add(manifest, "a", "b")
    assert len(manifest.jobs.claim(ClaimRequest("one", 10))) == 2
    assert manifest.jobs.claim(ClaimRequest("two", 10)) == []


@pytest.mark.parametrize("number", [0, -1])
def test_claiming_no_jobs_gives_none(manifest: Manifest, number: int) -> None:
    add(manifest, "a")
    assert manifest.jobs.claim(ClaimRequest("worker", number)) == []


def test_a_worker_may_claim_by_name(manifest: Manifest) -> None:
    _, second = add(manifest, "a", "b")
    assert [job.job_id for job in manifest.jobs.claim(ClaimRequest("worker", 5, job_ids=[second]))] == [second]
    assert manifest.jobs.claim(ClaimRequest("worker", job_ids=[])) == []


def test_a_job_waits_until_its_time_has_come(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a")
    fail(manifest, claim(manifest), RetryPolicy.TRANSIENT)
    assert manifest.jobs.claim(ClaimRequest("worker")) == []
    clock.pass_s(29)
    assert manifest.jobs.claim(ClaimRequest("worker")) == []
    clock.pass_s(1)
    assert claim(manifest).attempt_count == 2


def test_a_job_in_back_off_holds_up_nobody(manifest: Manifest) -> None:
    add(manifest, "a", priority=9)
    fail(manifest, claim(manifest), RetryPolicy.TRANSIENT)
    add(manifest, "b")
    assert claim(manifest).subject == "/games/b"


def test_a_new_attempt_knows_nothing_of_the_run_before(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    job = claim(manifest)
    manifest.jobs.report_run(job.lease, "run-1", "key")
    succeed(manifest, job)
    assert manifest.jobs.get(job_id).run_id == "run-1"
    manifest.jobs.mark_dirty(JobFilter(job_ids=[job_id]), "gone")
    assert claim(manifest).run_id is None
    assert manifest.jobs.get(job_id).run_id is None
    assert manifest.jobs.history(job_id)[-1].run_id is None
