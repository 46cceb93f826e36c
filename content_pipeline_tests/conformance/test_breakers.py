"""When one kind of error comes again and again, work waits for a while, visibly."""

from __future__ import annotations

from datetime import timedelta

import pytest

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest.breaker import FAILURES_TO_OPEN, FIRST_PAUSE_S, LONGEST_PAUSE_S
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest
from content_pipeline_tests.conformance.manifests import Clock, add, claim, fail, succeed

TRANSIENT, ENVIRONMENTAL, PERMANENT = RetryPolicy.TRANSIENT, RetryPolicy.ENVIRONMENTAL, RetryPolicy.PERMANENT
NAMES = [f"{number}.mp4" for number in range(8)]


def _fail_in_a_row(manifest: Manifest, number: int, stage: str | None = None) -> None:
    start = len(manifest.jobs.list())
    for name in [f"failing {index}" for index in range(start, start + number)]:
        (job_id,) = add(manifest, name)
        fail(manifest, manifest.jobs.claim(ClaimRequest("worker", job_ids=[job_id]))[0], TRANSIENT, stage=stage)


def _computed(*stages: str) -> dict[str, dict[str, bool]]:
    return {stage: {"reused": False} for stage in stages}


def test_five_videos_that_fail_alike_wait_and_nobody_else_does(manifest: Manifest, clock: Clock) -> None:
    _fail_in_a_row(manifest, FAILURES_TO_OPEN - 1, "montage")
    assert manifest.breakers.all()[0].until is None
    _fail_in_a_row(manifest, 1, "montage")
    (breaker,) = manifest.breakers.all()
    assert (breaker.scope, breaker.error_code, breaker.failures) == ("stage:montage", "ffmpeg_failed", 5)
    assert breaker.until == clock.time + timedelta(seconds=FIRST_PAUSE_S)
    assert breaker.message == "it went wrong"
    add(manifest, "fresh", "another")
    add(manifest, "elsewhere", library="/talks")
    clock.pass_s(FIRST_PAUSE_S - 1)  # the failed ones are due again
    assert [job.subject for job in manifest.jobs.due(ClaimRequest("worker", 20))] == [
        "/games/fresh",
        "/games/another",
        "/talks/elsewhere",
    ]
    assert len(manifest.jobs.claim(ClaimRequest("worker", 20))) == 3


def test_a_success_in_between_starts_the_count_anew(manifest: Manifest) -> None:
    _fail_in_a_row(manifest, FAILURES_TO_OPEN - 1, "montage")
    add(manifest, "good")
    succeed(manifest, claim(manifest), cost=_computed("energy", "montage"))
    assert manifest.breakers.all() == []


def test_a_video_that_gets_through_shows_that_the_failed_ones_are_bad_files(manifest: Manifest, clock: Clock) -> None:
    """They use up their attempts, which pauses nothing: that they fail once more is no news."""
    _fail_in_a_row(manifest, FAILURES_TO_OPEN + 1, "montage")
    add(manifest, "good")
    succeed(manifest, claim(manifest), cost=_computed("montage"))
    assert manifest.breakers.all() == []
    for delay_s in (30, 60):
        clock.pass_s(delay_s)
        again = manifest.jobs.claim(ClaimRequest("worker", 20))
        assert len(again) == FAILURES_TO_OPEN + 1
        for job in again:
            fail(manifest, job, TRANSIENT, stage="montage")
        assert not any(breaker.until for breaker in manifest.breakers.all())
    assert manifest.jobs.counts()[State.FAILED] == FAILURES_TO_OPEN + 1


def test_a_success_that_found_the_stage_done_proves_nothing(manifest: Manifest) -> None:
    _fail_in_a_row(manifest, FAILURES_TO_OPEN, "montage")
    add(manifest, "reused")
    succeed(manifest, claim(manifest), cost={"energy": {"reused": False}, "montage": {"reused": True}})
    assert len(manifest.breakers.all()) == 1


def test_while_a_stage_fails_for_everyone_each_video_keeps_its_attempts(manifest: Manifest, clock: Clock) -> None:
    _fail_in_a_row(manifest, 2 * FAILURES_TO_OPEN, "montage")
    for pause_s in (FIRST_PAUSE_S, 2 * FIRST_PAUSE_S):
        clock.pass_s(pause_s - 1)
        assert manifest.jobs.claim(ClaimRequest("worker", 20)) == []
        clock.pass_s(1)
        (probe,) = manifest.jobs.claim(ClaimRequest("worker", 20))
        assert manifest.jobs.claim(ClaimRequest("another", 20)) == []
        fail(manifest, probe, TRANSIENT, stage="montage")
    assert sum(job.attempt_count for job in manifest.jobs.list()) == 2 * FAILURES_TO_OPEN + 2
    clock.pass_s(4 * FIRST_PAUSE_S)
    succeed(manifest, claim(manifest))
    assert manifest.breakers.all() == []
    assert len(manifest.jobs.claim(ClaimRequest("worker", 20))) == 2 * FAILURES_TO_OPEN - 1


def test_the_failed_ones_that_may_try_do_not_hide_those_that_never_failed(manifest: Manifest, clock: Clock) -> None:
    _fail_in_a_row(manifest, 2 * FAILURES_TO_OPEN, "montage")
    clock.pass_s(FIRST_PAUSE_S)
    add(manifest, "fresh")
    assert [job.subject for job in manifest.jobs.due(ClaimRequest("worker", 2))][-1] == "/games/fresh"
    assert [job.subject for job in manifest.jobs.claim(ClaimRequest("worker", 2))][-1] == "/games/fresh"


def test_a_drive_that_cannot_be_read_is_judged_by_its_own_library(manifest: Manifest, clock: Clock) -> None:
    for number in range(FAILURES_TO_OPEN):
        add(manifest, f"{number}", library="/usb")
        fail(manifest, claim(manifest), TRANSIENT, "read_failed", stage="energy")
    assert manifest.breakers.all()[0].scope == "library:/usb"
    add(manifest, "good", library="/games")
    succeed(manifest, claim(manifest), cost=_computed("energy"))
    assert len(manifest.breakers.all()) == 1
    add(manifest, "good", library="/usb")
    succeed(manifest, claim(manifest), cost=_computed("energy"))
    assert manifest.breakers.all() == []


def test_a_success_elsewhere_does_not_end_a_pause(manifest: Manifest, clock: Clock) -> None:
    add(manifest, *NAMES, library="/usb")
    fail(manifest, claim(manifest), ENVIRONMENTAL, "library_offline")
    add(manifest, "good", library="/talks")
    clock.pass_s(FIRST_PAUSE_S)
    succeed(manifest, manifest.jobs.claim(ClaimRequest("worker", 1, job_ids=[manifest.jobs.list()[-1].job_id]))[0])
    assert len(manifest.breakers.all()) == 1


def test_permanent_errors_are_a_videos_own(manifest: Manifest) -> None:
    for name in NAMES:
        add(manifest, name)
        fail(manifest, claim(manifest), PERMANENT, "no_audio")
    assert manifest.breakers.all() == []


def test_a_full_disk_pauses_everything_at_once(manifest: Manifest) -> None:
    add(manifest, "a", library="/games")
    add(manifest, "b", library="/talks")
    fail(manifest, claim(manifest), ENVIRONMENTAL, "disk_full")
    assert manifest.breakers.all()[0].scope == "everything"
    assert manifest.jobs.claim(ClaimRequest("worker")) == []


def test_an_unplugged_drive_pauses_its_library_at_once(manifest: Manifest) -> None:
    add(manifest, *NAMES, library="/usb")
    add(manifest, "b", library="/talks")
    fail(manifest, claim(manifest), ENVIRONMENTAL, "library_offline")
    assert manifest.breakers.all()[0].scope == "library:/usb"
    assert [job.subject for job in manifest.jobs.claim(ClaimRequest("worker", 9))] == ["/talks/b"]


@pytest.mark.parametrize("code", ["disk_full", "library_offline"])
def test_when_a_pause_is_over_exactly_one_job_may_try(manifest: Manifest, clock: Clock, code: str) -> None:
    add(manifest, *NAMES)
    fail(manifest, claim(manifest), ENVIRONMENTAL, code)
    clock.pass_s(FIRST_PAUSE_S - 1)
    assert manifest.jobs.claim(ClaimRequest("worker", 5)) == []
    clock.pass_s(1)
    (probe,) = manifest.jobs.claim(ClaimRequest("worker", 5))
    assert manifest.jobs.claim(ClaimRequest("another", 5)) == []
    assert manifest.breakers.all()[0].probe == probe.job_id
    succeed(manifest, probe)
    assert manifest.breakers.all() == []
    assert len(manifest.jobs.claim(ClaimRequest("worker", 5))) == 5


def test_a_probe_of_one_library_lets_the_others_flow(manifest: Manifest, clock: Clock) -> None:
    add(manifest, *NAMES, library="/usb", priority=1)
    add(manifest, "b", "c", library="/talks")
    fail(manifest, claim(manifest), ENVIRONMENTAL, "library_offline")
    clock.pass_s(FIRST_PAUSE_S)
    first = manifest.jobs.claim(ClaimRequest("worker", 20))
    assert [job.library for job in first] == ["/usb", "/talks", "/talks"]


def test_a_probe_that_fails_doubles_the_pause(manifest: Manifest, clock: Clock) -> None:
    add(manifest, *NAMES)
    pauses = []
    for _ in range(7):
        fail(manifest, claim(manifest), ENVIRONMENTAL, "disk_full")
        until = manifest.breakers.all()[0].until
        assert until is not None
        pauses.append((until - clock.time).total_seconds())
        clock.pass_s(pauses[-1])
    assert pauses == [60, 120, 240, 480, 960, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


@pytest.mark.parametrize("ending", ["release", "crash", "permanent error", "rescue"])
def test_a_probe_that_proves_nothing_makes_way_for_the_next(manifest: Manifest, clock: Clock, ending: str) -> None:
    add(manifest, *NAMES)
    fail(manifest, claim(manifest), ENVIRONMENTAL, "disk_full")
    clock.pass_s(FIRST_PAUSE_S)
    probe = claim(manifest)
    match ending:
        case "release":
            manifest.jobs.release(probe.lease, "stopping")
        case "crash":
            manifest.jobs.crashed(probe.lease, "died")
        case "permanent error":
            fail(manifest, probe, PERMANENT, "no_audio")
        case "rescue":
            manifest.jobs.rescue(["worker"])
    assert len(manifest.jobs.claim(ClaimRequest("worker", 5))) == 1
    assert manifest.jobs.claim(ClaimRequest("worker", 5)) == []


def test_those_who_were_running_when_it_opened_do_not_prolong_the_pause(manifest: Manifest) -> None:
    add(manifest, *NAMES)
    running = manifest.jobs.claim(ClaimRequest("worker", 4))
    fail(manifest, running[0], ENVIRONMENTAL, "disk_full")
    until = manifest.breakers.all()[0].until
    for job in running[1:]:
        fail(manifest, job, ENVIRONMENTAL, "disk_full")
    (breaker,) = manifest.breakers.all()
    assert (breaker.until, breaker.openings, breaker.failures) == (until, 1, 4)


def test_a_success_during_a_pause_does_not_end_it(manifest: Manifest) -> None:
    add(manifest, *NAMES)
    failing, good = manifest.jobs.claim(ClaimRequest("worker", 2))
    fail(manifest, failing, ENVIRONMENTAL, "disk_full")
    succeed(manifest, good)
    assert manifest.jobs.claim(ClaimRequest("worker")) == []


def test_a_person_may_end_every_pause(manifest: Manifest, clock: Clock) -> None:
    add(manifest, *NAMES)
    fail(manifest, claim(manifest), ENVIRONMENTAL, "disk_full")
    assert manifest.breakers.close() == 1
    assert len(manifest.jobs.claim(ClaimRequest("worker", 3))) == 3


@pytest.mark.parametrize("code", ["disk_full", "library_offline"])
def test_with_a_pause_ends_the_wait_of_those_who_met_the_error(manifest: Manifest, code: str) -> None:
    (job_id,) = add(manifest, "a")
    fail(manifest, claim(manifest), RetryPolicy.ENVIRONMENTAL, code)
    assert manifest.breakers.close() == 1
    assert claim(manifest).job_id == job_id, "at once, without any back-off"


def test_the_back_off_of_a_transient_error_outlasts_a_pause(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    decision = fail(manifest, claim(manifest), RetryPolicy.TRANSIENT, "read_failed")
    manifest.breakers.close()
    assert manifest.jobs.get(job_id).available_at == clock.time + timedelta(seconds=decision.delay_s)
