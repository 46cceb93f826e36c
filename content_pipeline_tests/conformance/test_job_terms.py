"""What a job is to be done with: kept with it, replaced by whoever asks last, and never lost."""

from __future__ import annotations

import pytest

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult, JobTerms
from content_pipeline_tests.conformance.manifests import add, claim, fail, moves, succeed

FIRST = {"output_dir": "/one", "settings": {"output.max_segments": 1}}
OTHER = {"output_dir": "/two", "settings": {}}
FORCE, LATER_FORCE = "0" * 26, "1" * 26


def _in_state(manifest: Manifest, state: State, **given: object) -> str:
    (job_id,) = add(manifest, f"{state}", **given)
    match state:
        case State.SUCCEEDED | State.DIRTY:
            succeed(manifest, claim(manifest))
        case State.FAILED:
            fail(manifest, claim(manifest), RetryPolicy.PERMANENT)
        case State.RUNNING:
            claim(manifest)
        case State.CANCELLED:
            manifest.jobs.cancel(JobFilter(job_ids=[job_id]))
        case State.DISCARDED:
            manifest.jobs.discard(JobFilter(job_ids=[job_id]))
    if state is State.DIRTY:
        manifest.jobs.mark_dirty(JobFilter(job_ids=[job_id]), "changed")
    assert manifest.jobs.get(job_id).status is state
    return job_id


def test_options_and_force_are_read_back_as_they_were_given(manifest: Manifest) -> None:
    odd = {
        "output_dir": "/a b/\udcff\u00e9'\"",
        "settings": {"detection.hpss_margin": [1.0, 2.5], "energy.track": "all"},
    }
    (asked,) = add(manifest, "asked", options=odd, force_id=FORCE)
    (plain,) = add(manifest, "plain")
    assert (manifest.jobs.get(asked).options, manifest.jobs.get(asked).force_id) == (odd, FORCE)
    assert (manifest.jobs.get(plain).options, manifest.jobs.get(plain).force_id) == (None, None)
    assert {job.job_id: job.options for job in manifest.jobs.claim(ClaimRequest("worker", 2))} == {
        asked: odd,
        plain: None,
    }


def test_a_claim_names_the_settings_of_each_job(manifest: Manifest) -> None:
    add(manifest, "a", "b", options=FIRST)
    add(manifest, "c")
    claimed = manifest.jobs.claim(
        ClaimRequest("worker", 3, config_hash_of=lambda job: "own" if job.options else "settings")
    )
    assert [job.config_hash for job in claimed] == ["own", "own", "settings"]
    assert [manifest.jobs.get(job.job_id) for job in claimed] == claimed


@pytest.mark.parametrize(
    ("state", "becomes"),
    [
        (State.PENDING, State.PENDING),
        (State.DIRTY, State.DIRTY),
        (State.RUNNING, State.RUNNING),
        (State.SUCCEEDED, State.DIRTY),
        (State.FAILED, State.PENDING),
    ],
)
def test_whoever_asks_last_says_how_it_is_done(manifest: Manifest, state: State, becomes: State) -> None:
    job_id = _in_state(manifest, state, options=FIRST)
    manifest.jobs.ask_again([job_id], "asked again", JobTerms(OTHER, FORCE))
    job = manifest.jobs.get(job_id)
    assert (job.status, job.options, job.force_id) == (becomes, OTHER, FORCE)


@pytest.mark.parametrize("state", [State.CANCELLED, State.DISCARDED])
def test_what_a_person_stopped_stays_so(manifest: Manifest, state: State) -> None:
    job_id = _in_state(manifest, state, options=FIRST)
    manifest.jobs.ask_again([job_id], "asked again", JobTerms(OTHER, FORCE))
    job = manifest.jobs.get(job_id)
    assert (job.status, job.options, job.force_id) == (state, FIRST, None)


@pytest.mark.parametrize("state", [State.PENDING, State.DIRTY, State.RUNNING])
def test_the_daemon_leaves_what_a_command_asked_for_and_what_waits_alone(manifest: Manifest, state: State) -> None:
    job_id = _in_state(manifest, state, options=FIRST, force_id=FORCE)
    before = manifest.jobs.get(job_id), moves(manifest, job_id)
    manifest.jobs.ask_again([job_id], "the night", JobTerms(priority=-10))
    assert (manifest.jobs.get(job_id), moves(manifest, job_id)) == before


def test_the_daemon_does_what_is_finished_with_the_settings_as_they_are(manifest: Manifest) -> None:
    job_id = _in_state(manifest, State.SUCCEEDED, options=FIRST)
    manifest.jobs.ask_again([job_id], "the night", JobTerms(priority=-10))
    job = manifest.jobs.get(job_id)
    assert (job.status, job.options, job.priority) == (State.DIRTY, None, -10)


def test_asking_the_same_again_changes_nothing(manifest: Manifest) -> None:
    job_id = _in_state(manifest, State.PENDING, options=FIRST)
    before = manifest.jobs.get(job_id)
    manifest.jobs.ask_again([job_id], "asked again", JobTerms(dict(FIRST)))
    assert manifest.jobs.get(job_id) == before


def test_a_force_is_kept_until_it_is_fulfilled(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a", options=FIRST, force_id=FORCE)
    manifest.jobs.ask_again([job_id], "asked again, without force", JobTerms(OTHER))
    assert manifest.jobs.get(job_id).force_id == FORCE
    manifest.jobs.release(claim(manifest).lease, "stopped")
    fail(manifest, claim(manifest), RetryPolicy.PERMANENT)
    assert manifest.jobs.retry() == 1
    manifest.jobs.cancel()
    assert manifest.jobs.resume() == 1
    claim(manifest, "dies")
    manifest.jobs.rescue(["dies"])
    job = claim(manifest)
    assert (job.options, job.force_id) == (OTHER, FORCE)
    manifest.jobs.succeed(job.lease, JobResult(), job)
    assert (manifest.jobs.get(job_id).options, manifest.jobs.get(job_id).force_id) == (OTHER, None)


@pytest.mark.parametrize("terms", [JobTerms(OTHER), JobTerms(FIRST, LATER_FORCE)], ids=["other options", "a force"])
def test_what_is_asked_for_while_it_runs_is_done_afterwards(manifest: Manifest, terms: JobTerms) -> None:
    (job_id,) = add(manifest, "a", options=FIRST, force_id=FORCE)
    running = claim(manifest)
    manifest.jobs.ask_again([job_id], "asked again", terms)
    manifest.jobs.succeed(running.lease, JobResult(), running)
    job = manifest.jobs.get(job_id)
    assert (job.status, job.options, job.attempt_count) == (State.DIRTY, terms.options, 0)
    assert job.force_id == (FORCE if terms.force_id is None else terms.force_id)
    assert moves(manifest, job_id)[-2:] == ["running->succeeded", "succeeded->dirty"]
    again = claim(manifest)
    manifest.jobs.succeed(again.lease, JobResult(), again)
    assert (manifest.jobs.get(job_id).status, manifest.jobs.get(job_id).force_id) == (State.SUCCEEDED, None)


def test_many_jobs_are_asked_for_at_once(manifest: Manifest) -> None:
    manifest.jobs.enqueue([JobRequest(f"/games/{number}", "/games", options=FIRST) for number in range(1200)])
    manifest.jobs.ask_again([job.job_id for job in manifest.jobs.list()], "asked again", JobTerms(OTHER))
    assert all(job.options == OTHER for job in manifest.jobs.list())
