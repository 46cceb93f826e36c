"""What people and plans do to jobs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import sqlalchemy as sa

from content_pipeline.errors import IllegalMove, RetryPolicy, UnknownJob
from content_pipeline.job_kinds import CALIBRATION, PROCESSING
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import FINISHED, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest
from content_pipeline.manifest.schema import videos
from content_pipeline_tests.conformance.manifests import (
    Clock,
    add,
    claim,
    database_of,
    dump,
    fail,
    many,
    moves,
    succeed,
)

NOWHERE = "0" * 26


def _in_every_state(manifest: Manifest) -> dict[State, str]:
    """One job in each state."""
    ids: dict[State, str] = {}
    for state in (State.RUNNING, State.SUCCEEDED, State.DIRTY, State.FAILED):
        (ids[state],) = add(manifest, state)
        job = claim(manifest)
        if state in (State.SUCCEEDED, State.DIRTY):
            succeed(manifest, job)
        if state is State.DIRTY:
            manifest.jobs.mark_dirty(JobFilter(job_ids=[ids[state]]), "changed")
            # Out of the way of the claims that follow.
            manifest.jobs.cancel(JobFilter(job_ids=[ids[state]]))
        if state is State.FAILED:
            fail(manifest, job, RetryPolicy.PERMANENT)
    for state in (State.CANCELLED, State.DISCARDED, State.PENDING):
        (ids[state],) = add(manifest, state)
    manifest.jobs.cancel(JobFilter(job_ids=[ids[State.CANCELLED]]))
    manifest.jobs.discard(JobFilter(job_ids=[ids[State.DISCARDED]]))
    manifest.jobs.resume(JobFilter(job_ids=[ids[State.DIRTY]]))
    succeed(manifest, manifest.jobs.claim(ClaimRequest("worker", job_ids=[ids[State.DIRTY]]))[0])
    manifest.jobs.mark_dirty(JobFilter(job_ids=[ids[State.DIRTY]]), "changed")
    assert {state: manifest.jobs.get(job_id).status for state, job_id in ids.items()} == {
        state: state for state in State
    }
    return ids


ORDERS: dict[str, tuple[Callable[[Manifest, JobFilter], int], set[State]]] = {
    "cancel": (
        lambda manifest, job_filter: sum(manifest.jobs.cancel(job_filter)),
        {State.PENDING, State.DIRTY, State.RUNNING},
    ),
    "discard": (
        lambda manifest, job_filter: manifest.jobs.discard(job_filter),
        {State.PENDING, State.DIRTY, State.FAILED, State.CANCELLED},
    ),
    "resume": (lambda manifest, job_filter: manifest.jobs.resume(job_filter), {State.CANCELLED, State.DISCARDED}),
    "retry": (lambda manifest, job_filter: manifest.jobs.retry(job_filter), {State.FAILED}),
    "spoil": (lambda manifest, job_filter: manifest.jobs.mark_dirty(job_filter, "changed"), {State.SUCCEEDED}),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_about_all_moves_those_it_can_and_no_others(manifest: Manifest, name: str) -> None:
    ids = _in_every_state(manifest)
    order, allowed = ORDERS[name]
    assert order(manifest, JobFilter()) == len(allowed)
    moved = {state for state, job_id in ids.items() if manifest.jobs.get(job_id).status is not state}
    assert moved == allowed - {State.RUNNING}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_about_a_named_job_that_does_not_allow_it_changes_nothing(manifest: Manifest, name: str) -> None:
    ids = _in_every_state(manifest)
    order, allowed = ORDERS[name]
    good = [ids[state] for state in allowed]
    for state in set(State) - allowed:
        before = dump(manifest)
        with pytest.raises(IllegalMove, match=ids[state]):
            order(manifest, JobFilter(job_ids=[*good, ids[state]]))
        assert dump(manifest) == before
    with pytest.raises(UnknownJob, match=NOWHERE):
        order(manifest, JobFilter(job_ids=[*good, NOWHERE]))
    assert order(manifest, JobFilter(job_ids=[*good, *good])) == len(allowed)


def test_a_retry_gives_a_whole_budget_again(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a", max_attempts=1)
    fail(manifest, claim(manifest), RetryPolicy.TRANSIENT)
    clock.pass_s(5)
    assert manifest.jobs.retry() == 1
    job = manifest.jobs.get(job_id)
    assert (job.status, job.attempt_count, job.claim_count, job.error_code) == (State.PENDING, 0, 1, None)
    assert (job.available_at, job.completed_at) == (clock.time, None)
    assert claim(manifest).claim_count == 2


def test_a_retry_may_be_about_a_kind_of_error_or_a_time(manifest: Manifest, clock: Clock) -> None:
    ids = add(manifest, "a", "b", "c")
    for code in ("no_audio", "corrupt_media", "no_audio"):
        fail(manifest, claim(manifest), RetryPolicy.PERMANENT, code)
        clock.pass_s(60)
    assert manifest.jobs.retry(JobFilter(error_code="no_audio", since=clock.time - timedelta(seconds=70))) == 1
    assert manifest.jobs.get(ids[2]).status is State.PENDING
    assert manifest.jobs.retry(JobFilter(error_code="no_audio")) == 1
    assert manifest.jobs.retry(JobFilter(error_code="unheard_of")) == 0
    assert manifest.jobs.get(ids[1]).status is State.FAILED


def test_an_order_may_be_about_a_library_or_a_queue(manifest: Manifest) -> None:
    add(manifest, "a", library="/games")
    add(manifest, "b", library="/talks")
    add(manifest, "c", library="/talks", kind=CALIBRATION)
    assert manifest.jobs.cancel(JobFilter(library="/talks", kind=PROCESSING)) == (1, 0)
    assert [job.subject for job in manifest.jobs.list(JobFilter(status=State.CANCELLED))] == ["/talks/b"]


def test_an_order_may_be_about_more_jobs_than_a_statement_takes(manifest: Manifest) -> None:
    manifest.jobs.enqueue(many(600))
    ids = [job.job_id for job in manifest.jobs.list()]
    assert manifest.jobs.cancel() == (600, 0)
    assert manifest.jobs.resume(JobFilter(job_ids=ids)) == 600
    assert len(manifest.jobs.list(JobFilter(job_ids=ids), limit=5, offset=300)) == 5
    assert len(manifest.jobs.claim(ClaimRequest("worker", 600))) == 600
    assert len(manifest.jobs.rescue(["worker"])) == 600
    assert manifest.jobs.clear(JobFilter(job_ids=ids)) == 600
    assert manifest.jobs.counts()[State.PENDING] == 0


def test_a_spoilt_job_keeps_what_it_made_until_it_is_made_anew(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    succeed(manifest, claim(manifest), output_files=["/out"])
    manifest.jobs.mark_dirty(JobFilter(job_ids=[job_id]), "`rms_threshold` changed")
    job = manifest.jobs.get(job_id)
    assert (job.status, job.output_files, job.completed_at) == (State.DIRTY, ["/out"], None)
    assert manifest.jobs.history(job_id)[-1].reason == "`rms_threshold` changed"


def test_a_cancelled_running_job_is_not_cancelled_under_its_worker(manifest: Manifest) -> None:
    add(manifest, "a", "b")
    job = claim(manifest)
    assert manifest.jobs.cancel() == (1, 1)
    succeed(manifest, job)


def test_clearing_removes_jobs_that_do_not_run_and_leaves_their_history(manifest: Manifest) -> None:
    ids = _in_every_state(manifest)
    assert manifest.jobs.clear(JobFilter(status=State.FAILED)) == 1
    assert manifest.jobs.clear() == 5
    assert [job.job_id for job in manifest.jobs.list()] == [ids[State.RUNNING]]
    assert moves(manifest, ids[State.SUCCEEDED]) == ["pending->running", "running->succeeded"]
    (again,) = add(manifest, State.SUCCEEDED)
    assert again != ids[State.SUCCEEDED]


def test_a_reset_forgets_everything(manifest: Manifest) -> None:
    _in_every_state(manifest)
    manifest.reset()
    assert not any(dump(manifest).values())


def _see(manifest: Manifest, clock: Clock, path: str, offline: bool = False) -> None:
    texts = dict.fromkeys(("root", "key", "signature", "quick"), "x")
    seen = {"first_seen": clock.time, "last_seen": clock.time, "offline": offline}
    with database_of(manifest).engine.connect() as connection:
        connection.execute(sa.insert(videos).values(path=path, **texts, **seen))
        connection.commit()


def test_pruning_forgets_old_history_and_the_jobs_of_vanished_videos(manifest: Manifest, clock: Clock) -> None:
    there, offline, gone = add(manifest, "there", "offline", "gone")
    _see(manifest, clock, "/games/there")
    _see(manifest, clock, "/games/offline", offline=True)
    for _ in range(3):
        succeed(manifest, claim(manifest))
    clock.pass_s(100)
    (young,) = add(manifest, "young")
    succeed(manifest, claim(manifest))
    assert manifest.prune(clock.time - timedelta(seconds=50)) == {"jobs": 2, "transitions": 5}
    assert {job.job_id for job in manifest.jobs.list()} == {there, young}
    assert moves(manifest, there) == ["running->succeeded"], "how it came to its state is still known"
    assert len(moves(manifest, young)) == 2
    assert [*manifest.jobs.attempts(gone), *manifest.jobs.history(offline)] == []
    assert manifest.check() == []
    assert manifest.prune(clock.time - timedelta(seconds=50)) == {"jobs": 0, "transitions": 0}
    manifest.jobs.mark_dirty(JobFilter(job_ids=[there]), "changed")
    succeed(manifest, claim(manifest))


def test_pruning_leaves_alone_what_is_not_finished(manifest: Manifest, clock: Clock) -> None:
    ids = _in_every_state(manifest)
    clock.pass_s(1000)
    manifest.prune(clock.time)
    assert {job.status for job in manifest.jobs.list()} == set(State) - set(FINISHED)
    assert len(moves(manifest, ids[State.DIRTY])) > 1


def test_pruning_forgets_the_history_of_cleared_jobs(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    succeed(manifest, claim(manifest))
    manifest.jobs.clear()
    assert manifest.prune(clock.time)["transitions"] == 0
    clock.pass_s(1)
    assert manifest.prune(clock.time)["transitions"] == 2
    assert [*manifest.jobs.attempts(job_id), *manifest.jobs.history(job_id)] == []


def test_pruning_keeps_a_calibration_whose_subject_is_no_video(manifest: Manifest, clock: Clock) -> None:
    manifest.jobs.enqueue([JobRequest("/games", "/games", CALIBRATION)])
    succeed(manifest, manifest.jobs.claim(ClaimRequest("worker", kind=CALIBRATION))[0])
    clock.pass_s(10)
    assert manifest.prune(clock.time)["jobs"] == 0
