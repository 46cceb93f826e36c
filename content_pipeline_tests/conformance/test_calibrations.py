"""Thresholds that were applied to libraries, and which of them a video follows."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from content_pipeline.errors import LostLease
from content_pipeline.job_kinds import CALIBRATION
from content_pipeline.manifest.calibrations import AppliedCalibration
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobRequest, JobResult
from content_pipeline.manifest.schema import videos
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.settings import Settings, load
from content_pipeline_tests.conformance.manifests import Clock, add, database_of, fail, moves
from content_pipeline_tests.conformance.manifests import claim as claim_video

A, B = Path("/games/a"), Path("/games/b")


def see(manifest: Manifest, root: Path, name: str, key: str) -> None:
    manifest.videos.save(KnownVideo(root / name, root, key, "sig", "sha256:q", "blake3:f"))


def ask(manifest: Manifest, library: Path = A, **wish: float) -> Job:
    request = JobRequest(str(library), str(library), CALIBRATION, options={"calibration": wish})
    return manifest.jobs.ask(request, "asked for")


def claim(manifest: Manifest, worker: str = "worker") -> Job:
    (job,) = manifest.jobs.claim(ClaimRequest(worker, kind=CALIBRATION, ignore_backoff=True))
    return job


def applied(library: Path, value: float, setting: str = "sensitivity", preset: str = "broadband") -> AppliedCalibration:
    return AppliedCalibration(str(library), preset, setting, value, "k" * 64)


def calibrate(manifest: Manifest, library: Path, value: float, **more: str) -> None:
    ask(manifest, library)
    manifest.calibrations.succeed_job(claim(manifest).lease, JobResult(), applied(library, value, **more))


def sensitivity(manifest: Manifest, key: str, settings: Settings | None = None) -> float:
    base = load(env={}).settings if settings is None else settings
    return manifest.calibrations.settings_for(base, key).detection.sensitivity


def test_a_calibration_counts_for_the_videos_of_its_library_and_no_others(manifest: Manifest, clock: Clock) -> None:
    see(manifest, A, "one.mp4", "one")
    see(manifest, B, "two.mp4", "two")
    calibrate(manifest, A, 3.1)
    assert (sensitivity(manifest, "one"), sensitivity(manifest, "two")) == (3.1, 2.5)
    assert set(manifest.calibrations.of_videos()) == {"one"}
    found = manifest.calibrations.of_library(A)
    assert found is not None and (found.value, found.applied_at) == (3.1, clock())


def test_the_latest_counts_until_it_is_reset(manifest: Manifest) -> None:
    see(manifest, A, "one.mp4", "one")
    calibrate(manifest, A, 3.1)
    calibrate(manifest, A, 4.2)
    assert sensitivity(manifest, "one") == 4.2
    was = manifest.calibrations.reset(str(A)).was_applied
    assert was is not None and was.value == 4.2
    assert manifest.calibrations.reset(str(A)).was_applied is None
    assert sensitivity(manifest, "one") == 2.5


def test_a_video_in_several_libraries_follows_the_first_that_is_calibrated(manifest: Manifest) -> None:
    see(manifest, A, "one.mp4", "one")
    see(manifest, B, "copy.mp4", "one")
    calibrate(manifest, B, 4.0)
    assert sensitivity(manifest, "one") == 4.0
    calibrate(manifest, A, 3.0)
    assert sensitivity(manifest, "one") == 3.0
    assert manifest.calibrations.of_videos()["one"].library == str(A)


def test_a_copy_that_is_gone_has_no_say(manifest: Manifest) -> None:
    see(manifest, A, "one.mp4", "one")
    see(manifest, B, "copy.mp4", "one")
    calibrate(manifest, A, 3.0)
    with database_of(manifest).engine.connect() as connection:
        connection.execute(sa.update(videos).where(videos.c.root == str(A)).values(offline=True))
        connection.commit()
    assert sensitivity(manifest, "one") == 2.5
    assert manifest.calibrations.of_videos() == {}


@pytest.mark.parametrize(
    "flags", [{"detection.sensitivity": 2.5}, {"detection.preset": "classic"}, {"calibration.use": False}]
)
def test_a_threshold_given_as_a_flag_another_detector_or_a_switch_wins_over_a_calibration(
    manifest: Manifest, flags: dict[str, object]
) -> None:
    see(manifest, A, "one.mp4", "one")
    calibrate(manifest, A, 3.1)
    assert sensitivity(manifest, "one", load(flags=flags, env={}).settings) == 2.5


def test_a_calibration_wins_over_file_and_environment(manifest: Manifest) -> None:
    see(manifest, A, "one.mp4", "one")
    calibrate(manifest, A, 3.1)
    settings = load(env={"CONTENT_AI_DETECTION__SENSITIVITY": "7"}).settings
    assert (settings.detection.sensitivity, sensitivity(manifest, "one", settings)) == (7, 3.1)


def test_a_calibration_made_for_another_detector_does_not_count(manifest: Manifest) -> None:
    see(manifest, A, "one.mp4", "one")
    calibrate(manifest, A, 3.1, preset="classic")
    assert sensitivity(manifest, "one") == 2.5


def test_libraries_whose_names_are_no_text_are_kept_apart(manifest: Manifest) -> None:
    odd = Path("/games/\udcff")
    see(manifest, odd, "one.mp4", "one")
    calibrate(manifest, odd, 3.1)
    assert sensitivity(manifest, "one") == 3.1
    assert manifest.calibrations.of_library(Path("/games")) is None


def test_a_worker_that_lost_its_lease_applies_nothing(manifest: Manifest, clock: Clock) -> None:
    see(manifest, A, "one.mp4", "one")
    ask(manifest)
    slow = claim(manifest, "slow")
    clock.pass_s(1000)
    manifest.jobs.rescue()
    quick = claim(manifest, "quick")
    with pytest.raises(LostLease):
        manifest.calibrations.succeed_job(slow.lease, JobResult(), applied(A, 9.0))
    assert manifest.calibrations.of_library(A) is None
    manifest.calibrations.succeed_job(quick.lease, JobResult(), applied(A, 3.0))
    assert sensitivity(manifest, "one") == 3.0


def test_a_calibration_that_is_to_stop_is_cancelled_at_its_end_and_applies_nothing(manifest: Manifest) -> None:
    ask(manifest)
    running = claim(manifest)
    manifest.jobs.cancel(JobFilter(job_ids=[running.job_id]))
    assert not manifest.calibrations.succeed_job(running.lease, JobResult(), applied(A, 9.0))
    assert manifest.calibrations.of_library(A) is None
    assert manifest.jobs.get(running.job_id).status is State.CANCELLED
    assert [attempt.outcome for attempt in manifest.jobs.attempts(running.job_id)] == ["cancelled"]
    assert manifest.check() == []


def test_a_reset_cancels_the_calibration_of_its_library_that_waits_and_no_other(manifest: Manifest) -> None:
    calibrate(manifest, A, 3.1)
    waiting, other = ask(manifest, A), ask(manifest, B)
    done = manifest.calibrations.reset(str(A))
    assert (done.was_applied is not None, done.cancelled, done.asked_to_stop) == (True, 1, 0)
    assert manifest.jobs.get(waiting.job_id).status is State.CANCELLED
    assert manifest.jobs.get(other.job_id).status is State.PENDING
    assert claim(manifest).job_id == other.job_id


def test_a_reset_wins_over_a_calibration_that_is_being_made(manifest: Manifest) -> None:
    ask(manifest)
    running = claim(manifest)
    done = manifest.calibrations.reset(str(A))
    assert (done.was_applied, done.cancelled, done.asked_to_stop) == (None, 0, 1)
    assert not manifest.calibrations.succeed_job(running.lease, JobResult(), applied(A, 9.0))
    assert manifest.calibrations.of_library(A) is None


def test_whoever_asks_and_claims_gets_what_was_asked_or_is_shown_who_works_on_it(manifest: Manifest) -> None:
    def asked(value: float, worker: str) -> tuple[Job, Job | None]:
        request = JobRequest(str(A), str(A), CALIBRATION, options={"calibration": {"values": [value]}})
        return manifest.jobs.ask_and_claim(request, "asked for", worker)

    ask(manifest, montage_s=60)  # another's wish that waits gives way
    _, first = asked(4, "first")
    assert first is not None and first.options == {"calibration": {"values": [4]}}
    found, second = asked(6, "second")
    assert (second, found.status, found.worker_id) == (None, State.RUNNING, "first")
    assert manifest.jobs.get(first.job_id).options == first.options
    manifest.calibrations.succeed_job(first.lease, JobResult(), applied(A, 4))
    _, again = asked(6, "second")
    assert again is not None and again.options == {"calibration": {"values": [6]}}
    assert manifest.check() == []


def test_whoever_works_on_videos_never_gets_a_calibration(manifest: Manifest) -> None:
    calibration = ask(manifest)
    (video,) = add(manifest, "one.mp4")
    assert [job.job_id for job in manifest.jobs.due(ClaimRequest("worker", 10))] == [video]
    assert claim_video(manifest).job_id == video
    assert manifest.jobs.claim(ClaimRequest("worker")) == []
    assert manifest.jobs.claim(ClaimRequest("worker", job_ids=[calibration.job_id])) == []
    assert [job.job_id for job in manifest.jobs.due(ClaimRequest("worker", 10, kind=CALIBRATION))] == [
        calibration.job_id
    ]


def test_asking_again_puts_the_new_wish_in_place_of_the_old(manifest: Manifest) -> None:
    first = ask(manifest, montage_s=60)
    again = ask(manifest, per_hour=5)
    assert first.job_id == again.job_id
    assert claim(manifest).options == {"calibration": {"per_hour": 5}}


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled", "discarded"])
def test_asking_again_brings_back_a_job_that_has_ended(manifest: Manifest, end: str) -> None:
    from content_pipeline.errors import RetryPolicy

    job = ask(manifest)
    job_filter = JobFilter(job_ids=[job.job_id])
    if end == "succeeded":
        manifest.calibrations.succeed_job(claim(manifest).lease, JobResult(), None)
    elif end == "failed":
        fail(manifest, claim(manifest), RetryPolicy.PERMANENT)
    elif end == "cancelled":
        manifest.jobs.cancel(job_filter)
    else:
        manifest.jobs.discard(job_filter)
    assert str(manifest.jobs.get(job.job_id).status) == end
    ask(manifest, montage_s=60)
    assert claim(manifest).options == {"calibration": {"montage_s": 60}}


def test_asking_for_what_is_being_done_changes_nothing(manifest: Manifest) -> None:
    ask(manifest, montage_s=60)
    running = claim(manifest)
    again = ask(manifest, per_hour=5)
    assert (again.status, again.options) == (State.RUNNING, {"calibration": {"montage_s": 60}})
    assert manifest.jobs.claim(ClaimRequest("other", kind=CALIBRATION, ignore_backoff=True)) == []
    manifest.calibrations.succeed_job(running.lease, JobResult(), None)
    assert moves(manifest, running.job_id) == ["pending->pending", "pending->running", "running->succeeded"]
    assert manifest.jobs.history(running.job_id)[0].reason == "asked for"


def test_forgetting_everything_forgets_calibrations_too(manifest: Manifest) -> None:
    calibrate(manifest, A, 3.1)
    manifest.reset()
    assert manifest.calibrations.of_library(A) is None
