"""Looking at the manifest without changing it."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from content_pipeline.errors import RetryPolicy, UnknownJob
from content_pipeline.job_kinds import CALIBRATION, PROCESSING
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobRequest
from content_pipeline.manifest.videos import KnownVideo, Rename
from content_pipeline_tests.conformance.manifests import Clock, add, claim, dump, fail, many, succeed


def test_counts_say_how_many_jobs_are_in_each_state_of_each_queue(manifest: Manifest) -> None:
    add(manifest, "a", "b", "c", "d")
    add(manifest, "speech", kind=CALIBRATION)
    succeed(manifest, claim(manifest))
    fail(manifest, claim(manifest), RetryPolicy.PERMANENT)
    claim(manifest)
    counts = manifest.jobs.counts_by_kind()
    assert counts[PROCESSING] == manifest.jobs.counts() and counts[CALIBRATION] == manifest.jobs.counts(CALIBRATION)
    assert set(counts) == {PROCESSING, CALIBRATION} and all(set(states) == set(State) for states in counts.values())
    here = {state: number for state, number in counts[PROCESSING].items() if number}
    assert here == {State.PENDING: 1, State.RUNNING: 1, State.SUCCEEDED: 1, State.FAILED: 1}
    assert counts[CALIBRATION][State.PENDING] == 1
    manifest.jobs.clear(JobFilter(status=State.FAILED))
    assert manifest.jobs.counts()[State.FAILED] == 0
    assert manifest.jobs.counts("never used") == dict.fromkeys(State, 0)


def test_a_page_follows_the_one_before_with_nothing_lost_or_doubled(manifest: Manifest) -> None:
    manifest.jobs.enqueue(many(25))
    whole = [job.job_id for job in manifest.jobs.list()]
    pages = [manifest.jobs.list(limit=10, offset=offset) for offset in (0, 10, 20, 30)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert [job.job_id for page in pages for job in page] == whole == sorted(whole)
    assert [job.job_id for job in manifest.jobs.list(offset=20)] == whole[20:]


def test_a_list_may_be_narrowed(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a")
    add(manifest, "b", library="/talks")
    clock.pass_s(10)
    fail(manifest, claim(manifest), RetryPolicy.PERMANENT, "no_audio")
    narrowed = [
        JobFilter(status=State.FAILED),
        JobFilter(error_code="no_audio"),
        JobFilter(library="/games"),
        JobFilter(since=clock.time),
    ]
    for job_filter in narrowed:
        assert [job.subject for job in manifest.jobs.list(job_filter)] == ["/games/a"]
    assert manifest.jobs.list(JobFilter(kind=CALIBRATION)) == []


def test_a_job_is_found_by_the_beginning_of_its_id(manifest: Manifest) -> None:
    first, second = add(manifest, "a", "b")
    assert manifest.jobs.get(first).job_id == manifest.jobs.get(first.lower()).job_id == first
    assert manifest.jobs.get(second[:-1] + second[-1]).job_id == second
    manifest.jobs.clear(JobFilter(job_ids=[second]))
    assert manifest.jobs.get(first[:6].lower()).job_id == first


@pytest.mark.parametrize("wrong", ["", "ZZZZ", "%", "_" * 26, "0" * 26, "' OR 1=1 --", "é"])
def test_what_names_no_job_is_refused(manifest: Manifest, wrong: str) -> None:
    add(manifest, "a")
    with pytest.raises(UnknownJob, match="no job"):
        manifest.jobs.get(wrong)


def test_a_beginning_of_several_ids_is_refused(manifest: Manifest) -> None:
    first, _ = add(manifest, "a", "b")
    with pytest.raises(UnknownJob, match="more than one"):
        manifest.jobs.get(first[:4])


def test_a_job_is_found_by_its_subject(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    found = manifest.jobs.find(PROCESSING, "/games/a")
    assert found is not None and found.job_id == job_id
    assert manifest.jobs.find(CALIBRATION, "/games/a") is None


def test_the_history_says_who_did_what_when_and_why(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    job = claim(manifest, "somebody")
    manifest.jobs.report_run(job.lease, "run-1")
    clock.pass_s(10)
    fail(manifest, job, RetryPolicy.TRANSIENT)
    claimed, failed = manifest.jobs.history(job_id)
    assert (claimed.attempt, claimed.worker_id, claimed.reason) == (1, "somebody", "claimed")
    assert (failed.attempt, failed.worker_id, failed.run_id) == (1, "somebody", "run-1")
    assert failed.reason == "attempt 1 of 3 failed; retried in 30 s"
    assert (failed.timestamp - claimed.timestamp).total_seconds() == 10
    assert failed.timestamp.tzinfo is UTC
    assert [*manifest.jobs.history("unheard of"), *manifest.jobs.attempts("unheard of")] == []


def test_looking_changes_nothing(manifest: Manifest) -> None:
    (job_id,) = add(manifest, "a")
    claim(manifest)
    before = dump(manifest)
    jobs = manifest.jobs
    jobs.counts(), jobs.get(job_id), jobs.list(), jobs.history(job_id), jobs.attempts(job_id), jobs.workers()
    manifest.breakers.all(), manifest.check()
    assert dump(manifest) == before


def test_everything_below_a_folder_is_found_and_nothing_beside_it(manifest: Manifest) -> None:
    paths = ["/v/a", "/v/b/c", "/v-1/a", "/v.b/a", "/v0", "/V/a", "/v/é", "/v/~"]
    manifest.jobs.enqueue([JobRequest(path, "/v") for path in paths])
    found = {brief.subject for brief in manifest.jobs.summaries_under(Path("/v"))}
    assert found == {"/v/a", "/v/b/c", "/v/é", "/v/~"}


def test_a_file_that_moved_takes_its_job_along(manifest: Manifest, clock: Clock) -> None:
    moved, replaced = add(manifest, "before", "after")
    manifest.videos.save(KnownVideo(Path("/games/before"), Path("/games"), "k", "s", "q", None))
    manifest.videos.rename([Rename(Path("/games/before"), Path("/games/after"), Path("/games"), "s2")])
    assert [(job.job_id, job.subject) for job in manifest.jobs.list()] == [(moved, "/games/after")]
    assert replaced not in {job.job_id for job in manifest.jobs.list()}
    assert manifest.check() == [], "the counts know that one is gone"


def test_what_is_known_of_a_file_is_replaced_by_what_is_learnt(manifest: Manifest, clock: Clock) -> None:
    store = manifest.videos
    known = KnownVideo(Path("/games/a"), Path("/games"), "key", "signature", "quick", None)
    store.save(known)
    store.save(KnownVideo(Path("/games/a"), Path("/games"), "key", "signature", "quick", "full"))
    assert [video.full for video in store.with_key("key")] == ["full"]
    store.forget(Path("/games/a"))
    assert store.at(Path("/games/a")) is None
