"""Which launched runs may work: decided by the state of a real job in a manifest in SQLite."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from content_pipeline.errors import BadSettings, RetryPolicy
from content_pipeline.execution.admission import WAITING, Admission, Admitted, Decision, NotYet, UnderWay
from content_pipeline.execution.job_kinds.handler import Refused
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.names import PROCESS_VIDEO, job_tag
from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure, JobRequest, JobResult, JobTerms
from content_pipeline.settings import Settings, load
from content_pipeline.settings.job_options import JobOptions, forced_stages
from content_pipeline.settings.run_overrides import RunOverrides
from content_pipeline_tests.conformance.manifests import database_of

KEY = "game-0123456789ab"


@pytest.fixture
def job(manifest: Manifest) -> Job:
    manifest.jobs.enqueue([JobRequest("/games/game.mp4", "/games", video_key=KEY)])
    (job,) = manifest.jobs.list()
    return job


def admit(manifest: Manifest, launch: Launch) -> Decision:
    return Admission(manifest, this_worker(), Settings(), lambda _: "a hash").admit(launch)


def launch_of(job: Job, attempt: int = 1, worker: str | None = None) -> Launch:
    return Launch("a run", PROCESS_VIDEO, KEY, job_tag=job_tag(job.job_id, attempt), worker=worker)


def claimed(manifest: Manifest, job: Job) -> Job:
    (found,) = manifest.jobs.claim(ClaimRequest(this_worker(), job_ids=[job.job_id]))
    return found


def succeed(manifest: Manifest, job: Job) -> None:
    manifest.jobs.succeed(claimed(manifest, job).lease, JobResult(video_key=KEY))


def fail(manifest: Manifest, job: Job) -> None:
    failure = JobFailure("ffmpeg_failed", "it went wrong", RetryPolicy.TRANSIENT)
    manifest.jobs.fail(claimed(manifest, job).lease, failure)


def release(manifest: Manifest, job: Job) -> None:
    manifest.jobs.release(claimed(manifest, job).lease, "handed over")


def cancel(manifest: Manifest, job: Job) -> None:
    manifest.jobs.cancel(JobFilter(job_ids=[job.job_id]))


def remove(manifest: Manifest, job: Job) -> None:
    manifest.jobs.clear(JobFilter(job_ids=[job.job_id]))


def test_a_run_of_a_waiting_job_claims_it(manifest: Manifest, job: Job) -> None:
    decision = admit(manifest, launch_of(job))
    assert isinstance(decision, Admitted) and decision.job is not None
    found = manifest.jobs.get(job.job_id)
    assert (found.status, found.worker_id, found.config_hash) == (State.RUNNING, this_worker(), "a hash")


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (claimed, "is being processed by run"),
        (succeed, "is already succeeded"),
        (cancel, "is already cancelled"),
        (remove, "its job was removed"),
        (release, "attempt 1 of the job"),
    ],
    ids=["it is running", "it succeeded", "it was cancelled", "it was removed", "the attempt was made by another run"],
)
def test_a_run_that_is_not_needed_any_more_is_refused_and_touches_nothing(
    manifest: Manifest, job: Job, before: Callable[[Manifest, Job], object], why: str
) -> None:
    before(manifest, job)
    jobs = manifest.jobs.list()
    decision = admit(manifest, launch_of(job))
    assert isinstance(decision, Refused) and decision.needless
    assert why in decision.why
    assert manifest.jobs.list() == jobs


def test_a_run_that_lost_its_worker_goes_on_whatever_attempt_it_was(manifest: Manifest, job: Job) -> None:
    release(manifest, job)
    decision = admit(manifest, launch_of(job, attempt=1, worker="a worker that is gone"))
    assert isinstance(decision, Admitted)


def test_a_run_of_a_job_that_waits_for_its_retry_waits_too(manifest: Manifest, job: Job) -> None:
    fail(manifest, job)
    assert manifest.jobs.get(job.job_id).available_at > job.available_at
    assert admit(manifest, launch_of(job, attempt=2)) == NotYet(WAITING)


def test_a_run_by_hand_does_not_wait_for_the_retry(manifest: Manifest, job: Job) -> None:
    fail(manifest, job)
    decision = admit(manifest, Launch("a run", PROCESS_VIDEO, KEY))
    assert isinstance(decision, Admitted) and decision.job is not None
    assert decision.job.job_id == job.job_id


def test_a_run_by_hand_beside_a_worker_is_refused_as_a_fault(manifest: Manifest, job: Job) -> None:
    claimed(manifest, job)
    decision = admit(manifest, Launch("a run", PROCESS_VIDEO, KEY))
    assert isinstance(decision, Refused) and not decision.needless
    assert "is already being processed" in decision.why


@pytest.mark.parametrize("by_hand", [False, True], ids=["delivered", "by hand"])
def test_a_run_is_never_refused_because_it_is_itself_at_work(manifest: Manifest, job: Job, by_hand: bool) -> None:
    launch = Launch("a run", PROCESS_VIDEO, KEY) if by_hand else launch_of(job)
    first = admit(manifest, launch)
    assert isinstance(first, Admitted) and first.job is not None
    assert first.job.run_id == "a run", "the claim names the run, so that its next process finds it"
    assert manifest.jobs.attempts(job.job_id)[0].run_id == "a run"
    again = admit(manifest, launch)
    assert isinstance(again, UnderWay) and again.job.lease == first.job.lease


def test_a_run_about_no_job_is_admitted_without_one(manifest: Manifest, job: Job) -> None:
    assert admit(manifest, Launch("a run", "maintenance")) == Admitted(None)
    assert manifest.jobs.get(job.job_id).status is State.PENDING


def by_hand(overrides: RunOverrides, run_id: str = "a run") -> Launch:
    return Launch(run_id, PROCESS_VIDEO, KEY, overrides=overrides)


def test_what_was_set_for_one_run_is_gone_with_the_next_and_a_command_s_options_stay(
    manifest: Manifest, job: Job
) -> None:
    command = JobOptions.of(load(flags={"output.max_segments": 5}, env={}).settings).as_json()
    manifest.jobs.ask_again([job.job_id], "a command", JobTerms(options=command))
    first = admit(manifest, by_hand(RunOverrides({"render.crf": 20}, ("montage",))))
    assert isinstance(first, Admitted) and first.job is not None
    assert JobOptions.from_json(first.job.options).settings == {"output.max_segments": 5, "render.crf": 20}
    assert (forced_stages(first.job.options), first.job.force_id is not None) == (("montage",), True)
    manifest.jobs.release(first.job.lease, "its worker stopped")
    again = admit(manifest, by_hand(RunOverrides({"render.crf": 20}, ("montage",))))
    assert isinstance(again, Admitted) and again.job is not None
    assert (again.job.options, again.job.force_id) == (first.job.options, first.job.force_id), "the same run goes on"
    manifest.jobs.release(again.job.lease, "its worker stopped")
    second = admit(manifest, by_hand(RunOverrides(), "another run"))
    assert isinstance(second, Admitted) and second.job is not None
    assert (second.job.options, second.job.force_id) == (command, None)


def test_the_force_of_a_command_is_not_taken_back_in_the_launchpad(manifest: Manifest, job: Job) -> None:
    options = JobOptions.of(Settings()).as_json()
    manifest.jobs.ask_again([job.job_id], "a command", JobTerms(options=options, force_id="a command's"))
    for overrides in (RunOverrides({}, ("montage",)), RunOverrides({"render.crf": 20}), RunOverrides()):
        found = admit(manifest, by_hand(overrides))
        assert isinstance(found, Admitted) and found.job is not None
        assert (found.job.force_id, forced_stages(found.job.options)) == ("a command's", None)
        manifest.jobs.release(found.job.lease, "its worker stopped")


def test_a_run_config_that_cannot_be_used_changes_nothing(manifest: Manifest, job: Job) -> None:
    with pytest.raises(BadSettings, match=r"`render\.crf` = 99"):
        admit(manifest, by_hand(RunOverrides({"render.crf": 99})))
    assert manifest.jobs.list() == [job]


def test_a_run_about_what_this_host_cannot_see_waits_for_another(manifest: Manifest) -> None:
    manifest.jobs.enqueue([JobRequest("root:nas/game.mp4", "root:nas", video_key=KEY)])
    with database_of(manifest).transaction() as tx:
        tx.connection.execute(sa.text("INSERT INTO storage_roots VALUES ('nas', 'id', '2026-01-01 00:00:00.000000')"))
    (job,) = manifest.jobs.list()
    decision = admit(manifest, launch_of(job))
    assert isinstance(decision, NotYet) and "`nas` is not mapped on this host" in decision.why
    assert manifest.jobs.get(job.job_id).claim_count == 0
