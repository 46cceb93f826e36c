"""Since when jobs are out of date, and which of them wait for what: the same on every database."""

from __future__ import annotations

from pathlib import Path

from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import JobRequest
from content_pipeline_tests.conformance.manifests import claim, succeed

LIBRARY = Path("/games")


def ask(manifest: Manifest, name: str, priority: int = 0) -> str:
    subject = str(LIBRARY / name)
    manifest.jobs.enqueue([JobRequest(subject, str(LIBRARY), video_key=name, priority=priority)])
    return next(job.job_id for job in manifest.jobs.list() if job.subject == subject)


def test_a_job_s_age_is_its_last_success_and_the_last_time_it_was_marked(manifest: Manifest) -> None:
    done = ask(manifest, "done.mp4")
    succeed(manifest, claim(manifest))
    dirty = ask(manifest, "dirty.mp4")
    succeed(manifest, claim(manifest))
    manifest.jobs.mark_dirty(JobFilter(job_ids=[dirty]), "montage: a setting")
    new = ask(manifest, "new.mp4")
    manifest.jobs.enqueue([JobRequest("/elsewhere/a.mp4", "/elsewhere")])
    ages = manifest.jobs.ages_under(LIBRARY)
    assert set(ages) == {done, dirty, new}
    completed = {job.job_id: job.completed_at for job in manifest.jobs.list()}
    assert (ages[done].succeeded_at, ages[done].dirty_since) == (completed[done], None)
    assert ages[dirty].succeeded_at == manifest.jobs.attempts(dirty)[-1].ended_at
    assert ages[dirty].dirty_reason == "montage: a setting"
    assert ages[dirty].dirty_since == manifest.jobs.history(dirty)[-1].timestamp
    assert (ages[new].succeeded_at, ages[new].dirty_since) == (None, None)


def test_a_success_is_remembered_while_the_job_is_worked_on_again(manifest: Manifest) -> None:
    job_id = ask(manifest, "again.mp4")
    succeed(manifest, claim(manifest))
    before = manifest.jobs.ages_under(LIBRARY)[job_id].succeeded_at
    manifest.jobs.mark_dirty(JobFilter(), "changed")
    job = claim(manifest)
    manifest.jobs.release(job.lease, "stopped")
    age = manifest.jobs.ages_under(LIBRARY)[job_id]
    assert (age.succeeded_at, age.dirty_since) == (before, None)
    assert before is not None


def test_priority_is_only_raised_and_only_of_what_waits(manifest: Manifest) -> None:
    done = ask(manifest, "done.mp4", -10)
    succeed(manifest, claim(manifest))
    low, high = ask(manifest, "low.mp4", -10), ask(manifest, "high.mp4", 5)
    assert [job.job_id for job in manifest.jobs.waiting_with_priority(-10)] == [low]
    assert manifest.jobs.raise_priority([done, low, high], 0) == 1
    priorities = {job.job_id: job.priority for job in manifest.jobs.list()}
    assert priorities == {done: -10, low: 0, high: 5}
    assert manifest.check() == []


def test_jobs_are_found_by_their_videos(manifest: Manifest) -> None:
    ids = {name: ask(manifest, name) for name in ("a.mp4", "b.mp4", "c.mp4")}
    found = manifest.jobs.summaries_of_videos({"a.mp4", "c.mp4", "nobody"})
    assert {job.job_id: job.status for job in found} == dict.fromkeys((ids["a.mp4"], ids["c.mp4"]), State.PENDING)
    assert manifest.jobs.summaries_of_videos(()) == []
