"""What a worker says of a job it holds."""

from __future__ import annotations

import pytest

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import Move, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobFailure
from content_pipeline.manifest.transitions import ERROR_LENGTH, SNIPPET_LENGTH
from content_pipeline_tests.conformance.manifests import Clock, add, claim, fail, moves, succeed


def test_a_success_keeps_what_was_made(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a", input_size=7, video_key="old")
    job = claim(manifest)
    clock.pass_s(3)
    made = {
        "input_hash_full": "blake3:1",
        "config_hash": "f" * 64,
        "stage_keys": {"energy": "1"},
        "output_files": ["/out/ä.mp4"],
        "output_hashes": {"/out/ä.mp4": "0" * 64},
        "results": {"events": 3},
        "cost": {"energy": {"cpu_s": 1.5, "reused": False}},
    }
    succeed(manifest, job, **made)
    done = manifest.jobs.get(job_id)
    assert {name: getattr(done, name) for name in made} == made
    assert (done.status, done.completed_at, done.error_code) == (State.SUCCEEDED, clock.time, None)
    assert (done.input_size, done.video_key) == (7, "old"), "what a result does not say stays"
    assert (done.lease_token, done.worker_id, done.lease_expires_at, done.progress) == (None, None, None, None)
    (attempt,) = manifest.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.ended_at, attempt.cost) == ("succeeded", clock.time, made["cost"])


def test_progress_and_run_are_seen_while_it_runs(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    job = claim(manifest)
    manifest.jobs.report_run(job.lease, "run-1", "a-key")
    manifest.jobs.report_run(job.lease, "run-2")
    manifest.jobs.report_progress(job.lease, {"stage": "energy", "percent": 40})
    seen = manifest.jobs.get(job_id)
    assert (seen.run_id, seen.video_key) == ("run-2", "a-key"), "a run without a key leaves the key alone"
    assert seen.progress == {"stage": "energy", "percent": 40}
    assert manifest.jobs.attempts(job_id)[0].run_id == "run-2"
    assert moves(manifest, job_id) == ["pending->running"]


def test_a_permanent_error_ends_the_job_at_once(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    assert fail(manifest, claim(manifest), RetryPolicy.PERMANENT, "no_audio").move is Move.FAIL
    job = manifest.jobs.get(job_id)
    assert (job.status, job.error_code, job.last_error) == (State.FAILED, "no_audio", "it went wrong")
    assert (job.completed_at, job.attempt_count) == (clock.time, 1)
    (attempt,) = manifest.jobs.attempts(job_id)
    assert (attempt.outcome, attempt.error_code, attempt.error) == ("failed", "no_audio", "it went wrong")
    assert manifest.jobs.history(job_id)[-1].error_snippet == "no_audio: it went wrong"


def test_a_transient_error_is_tried_again_ever_later(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a", max_attempts=10)
    waits = []
    for _ in range(9):
        decision = fail(manifest, claim(manifest), RetryPolicy.TRANSIENT)
        waits.append(decision.delay_s)
        assert (manifest.jobs.get(job_id).available_at - clock.time).total_seconds() == decision.delay_s
        assert manifest.check() == []
        clock.pass_s(decision.delay_s)
        manifest.breakers.close()
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert fail(manifest, claim(manifest), RetryPolicy.TRANSIENT).move is Move.FAIL
    assert manifest.jobs.get(job_id).status is State.FAILED


def test_an_environmental_error_costs_no_attempt(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a", max_attempts=1)
    for _ in range(5):
        fail(manifest, claim(manifest), RetryPolicy.ENVIRONMENTAL, "disk_full")
        assert manifest.jobs.get(job_id).attempt_count == 0
        assert manifest.check() == []
        clock.pass_s(30)
        manifest.breakers.close()
    assert manifest.jobs.get(job_id).claim_count == 5


def test_a_job_given_back_costs_nothing_and_is_due_at_once(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a", max_attempts=1)
    for number in range(1, 4):
        job = claim(manifest)
        assert (job.claim_count, job.attempt_count) == (number, 1)
        manifest.jobs.release(job.lease, "the worker stops")
    assert (manifest.jobs.get(job_id).status, manifest.jobs.get(job_id).attempt_count) == (State.PENDING, 0)
    assert [attempt.outcome for attempt in manifest.jobs.attempts(job_id)] == ["released"] * 3
    assert manifest.jobs.history(job_id)[-1].reason == "the worker stops"


def test_a_crash_costs_no_attempt_but_the_second_ends_the_job(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    manifest.jobs.crashed(claim(manifest).lease, "killed by signal 9")
    job = manifest.jobs.get(job_id)
    assert (job.status, job.attempt_count, job.crash_count) == (State.PENDING, 0, 1)
    manifest.jobs.crashed(claim(manifest).lease, "killed by signal 9")
    job = manifest.jobs.get(job_id)
    assert (job.status, job.error_code, job.crash_count) == (State.FAILED, "crashed", 2)
    assert job.last_error == "killed by signal 9"


def test_a_job_asked_to_stop_ends_cancelled(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    job = claim(manifest)
    assert manifest.jobs.cancel(JobFilter(job_ids=[job_id])) == (0, 1)
    assert manifest.jobs.get(job_id).status is State.RUNNING
    assert manifest.jobs.renew("worker", [job.lease]).cancelled == {job_id}
    manifest.jobs.stop_cancelled(job.lease)
    assert (manifest.jobs.get(job_id).status, manifest.jobs.get(job_id).completed_at) == (State.CANCELLED, clock.time)
    assert manifest.jobs.attempts(job_id)[0].outcome == "cancelled"


@pytest.mark.parametrize("ending", ["release", "transient", "environmental", "crash", "rescue"])
def test_a_wish_to_stop_outlives_the_attempt(manifest: Manifest, clock: Clock, ending: str) -> None:
    (job_id,) = add(manifest, "a")
    job = claim(manifest)
    manifest.jobs.cancel(JobFilter(job_ids=[job_id]))
    match ending:
        case "release":
            manifest.jobs.release(job.lease, "the worker stops")
        case "transient":
            assert fail(manifest, job, RetryPolicy.TRANSIENT).move is Move.CANCEL
        case "environmental":
            fail(manifest, job, RetryPolicy.ENVIRONMENTAL)
        case "crash":
            manifest.jobs.crashed(job.lease, "died")
        case "rescue":
            clock.pass_s(1000)
            manifest.jobs.rescue()
    assert manifest.jobs.get(job_id).status is State.CANCELLED
    assert moves(manifest, job_id) == ["pending->running", "running->cancelled"]
    manifest.jobs.resume()
    manifest.breakers.close()
    assert not claim(manifest).cancel_requested


def test_a_success_stands_although_a_stop_was_asked_for(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    job = claim(manifest)
    manifest.jobs.cancel()
    succeed(manifest, job)
    assert manifest.jobs.get(job_id).status is State.SUCCEEDED


@pytest.mark.parametrize(
    "message",
    ["x" * 100_000, "😀" * 100_000, "nul \0 inside", "half a character \udcff\ud800", "\0" * 5000, "\udcff" * 5000],
    ids=["long", "long unicode", "nul", "surrogates", "only nul", "only surrogates"],
)
def test_any_error_text_can_be_kept(manifest: Manifest, message: str) -> None:
    (job_id,) = add(manifest, "a")
    manifest.jobs.fail(claim(manifest).lease, JobFailure("internal_error" * 10, message, RetryPolicy.TRANSIENT))
    kept = manifest.jobs.get(job_id).last_error
    assert kept is not None and 0 < len(kept) <= ERROR_LENGTH
    snippet = manifest.jobs.history(job_id)[-1].error_snippet
    assert snippet is not None and len(snippet) <= SNIPPET_LENGTH
    assert manifest.jobs.attempts(job_id)[0].error == kept
    assert manifest.breakers.all()[0].message == kept
