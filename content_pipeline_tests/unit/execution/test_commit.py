"""What becomes of a job when its child has ended: the decision, and what is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from content_pipeline.errors import LostLease, NotAVideo, Stalled
from content_pipeline.execution.active_job import ActiveJob
from content_pipeline.execution.commit import (
    Cancel,
    Crash,
    Decision,
    Fail,
    Lose,
    Release,
    Succeed,
    commit,
    decide,
    decide_without_job,
)
from content_pipeline.execution.messages import Failed, Failure, Message, Outdated, RunStatus, WorkEnded
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline_tests.unit.execution.jobs import ALL_FINISHED, SUCCEEDED, active, claimed

BROKEN = Failure.of(NotAVideo("no video"), "fingerprint")
HUNG = Failure.of(Stalled("it hung"), "energy")
LOG = Path("/logs/a.log")


def stop(one: ActiveJob) -> None:
    one.stop_by_s = 0.0


def stall(one: ActiveJob) -> None:
    one.stall = HUNG


def lose(one: ActiveJob) -> None:
    one.lease_lost = True


def nothing(_one: ActiveJob) -> None:
    return None


CASES = [
    ("all is made", (*ALL_FINISHED, SUCCEEDED), nothing, None, Succeed()),
    ("all is made, and a person wanted it stopped a moment before", (*ALL_FINISHED, SUCCEEDED), stop, None, Succeed()),
    ("some is made", (*ALL_FINISHED[:2], SUCCEEDED), nothing, None, Release("a run of fingerprint, energy ended")),
    ("the lease is gone, whatever was made", (*ALL_FINISHED, SUCCEEDED), lose, None, Lose()),
    ("the run does not fit", (Outdated("it is another video"),), nothing, None, Release("it is another video")),
    ("stopped", (), stop, "killed by SIGKILL", Cancel()),
    ("terminated in Dagster", (WorkEnded(RunStatus.CANCELLED),), nothing, None, Cancel()),
    ("failed", (Failed(BROKEN), WorkEnded(RunStatus.FAILED)), nothing, None, Fail(BROKEN)),
    ("hung", (), stall, "killed by SIGKILL", Fail(HUNG)),
    ("failed, and hung then", (Failed(BROKEN),), stall, "killed by SIGKILL", Fail(BROKEN)),
    ("died", (), nothing, "killed by SIGSEGV", Crash("killed by SIGSEGV")),
    ("ended without a word", ALL_FINISHED, nothing, None, Crash("ended without a result")),
]


@pytest.mark.parametrize(
    ("messages", "do", "crash", "decision"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_the_end_of_a_child_decides(
    manifest: Manifest, messages: tuple[Message, ...], do: object, crash: str | None, decision: Decision
) -> None:
    job = claimed(manifest)
    found = active(job, *messages)
    assert callable(do)
    do(found)
    assert decide(found, job, crash) == decision


def test_a_run_of_picked_stages_does_not_end_its_job(manifest: Manifest) -> None:
    job = claimed(manifest)
    assert isinstance(decide(active(job, *ALL_FINISHED, SUCCEEDED, whole=False), job, None), Release)


@pytest.mark.parametrize(
    ("decision", "state", "status", "attempts"),
    [
        (Succeed(), State.SUCCEEDED, "succeeded", 1),
        (Release("not now"), State.PENDING, "pending", 0),
        (Cancel(), State.CANCELLED, "cancelled", 1),
        (Fail(BROKEN), State.FAILED, "failed", 1),
        (Fail(HUNG), State.PENDING, "pending", 1),
        (Crash("killed by SIGSEGV"), State.PENDING, "pending", 0),
    ],
)
def test_a_decision_is_written_and_told(
    manifest: Manifest, decision: Decision, state: State, status: str, attempts: int
) -> None:
    job = claimed(manifest)
    outcome = commit(active(job, *ALL_FINISHED, SUCCEEDED), job, decision, manifest, LOG)
    after = manifest.jobs.get(job.job_id)
    assert (after.status, outcome.status, after.attempt_count) == (state, status, attempts)
    assert after.lease_token is None
    assert manifest.check() == []


def test_what_was_made_is_kept_with_the_job(manifest: Manifest) -> None:
    job = claimed(manifest)
    commit(active(job, *ALL_FINISHED, SUCCEEDED), job, Succeed(), manifest, LOG)
    kept = manifest.jobs.get(job.job_id)
    assert kept.stage_keys == {one.stage: one.key for one in ALL_FINISHED}
    assert kept.output_hashes == {"/output/montage": "sha"}
    assert (kept.input_hash_quick, kept.input_hash_full) == ("quick", "full")


def test_a_crash_names_the_log_and_how_to_reproduce_it(manifest: Manifest) -> None:
    job = claimed(manifest)
    outcome = commit(active(job), job, Crash("killed by SIGSEGV"), manifest, LOG)
    assert outcome.error_code == "crashed"
    assert outcome.error is not None
    assert all(said in outcome.error for said in ("SIGSEGV", str(LOG), f"content-ai process --input {job.subject}"))
    assert manifest.jobs.get(job.job_id).crash_count == 1


@pytest.mark.parametrize("decision", [Succeed(), Release("r"), Cancel(), Fail(BROKEN), Crash("x"), Lose()])
def test_one_whose_lease_is_gone_writes_nothing(manifest: Manifest, decision: Decision) -> None:
    job = claimed(manifest)
    manifest.jobs.release(job.lease, "somebody else has it")
    before = manifest.jobs.history(job.job_id)
    with pytest.raises(LostLease):
        commit(active(job, *ALL_FINISHED, SUCCEEDED), job, decision, manifest, LOG)
    assert manifest.jobs.history(job.job_id) == before


@pytest.mark.parametrize(
    ("messages", "do", "crash", "told"),
    [
        ((SUCCEEDED,), nothing, None, ("succeeded", None)),
        ((WorkEnded(RunStatus.FAILED),), nothing, None, ("failed", None)),
        ((), stop, "killed by SIGKILL", ("cancelled", None)),
        ((), stall, "killed by SIGKILL", ("failed", "stalled")),
        ((), nothing, "killed by SIGSEGV", ("failed", "crashed")),
    ],
)
def test_a_run_without_a_job_is_told_by_its_end(
    messages: tuple[Message, ...], do: object, crash: str | None, told: tuple[str, str | None]
) -> None:
    found = active(None, *messages)
    assert callable(do)
    do(found)
    outcome = decide_without_job(found, crash)
    assert (outcome.status, outcome.error_code) == told
