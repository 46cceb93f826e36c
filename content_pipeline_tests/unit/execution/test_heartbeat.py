"""Leases are renewed when it is time, and what the manifest says of them is passed on."""

from __future__ import annotations

from content_pipeline.execution.heartbeat import NOTHING, Heartbeat
from content_pipeline.execution.messages import Progress
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.manifest import Manifest
from content_pipeline_tests.unit.execution.jobs import WORKER, active, claimed

AT_ONCE, NOT_YET = 0.0, 3600.0


def test_nothing_is_asked_before_it_is_time(manifest: Manifest) -> None:
    job = claimed(manifest)
    manifest.jobs.cancel(JobFilter(job_ids=[job.job_id]))
    assert Heartbeat(manifest, WORKER, NOT_YET).beat([active(job)]) == NOTHING
    assert Heartbeat(manifest, WORKER, AT_ONCE).beat([active(job)]).cancelled == {job.job_id}


def test_a_beat_prolongs_every_lease(manifest: Manifest) -> None:
    jobs = [claimed(manifest, name) for name in ("a.mp4", "b.mp4")]
    assert Heartbeat(manifest, WORKER, AT_ONCE).beat([active(job) for job in jobs]) == NOTHING
    for job in jobs:
        renewed, before = manifest.jobs.get(job.job_id).lease_expires_at, job.lease_expires_at
        assert renewed is not None and before is not None and renewed > before


def test_a_lost_lease_is_told_and_the_others_are_kept(manifest: Manifest) -> None:
    lost, kept = claimed(manifest, "a.mp4"), claimed(manifest, "b.mp4")
    manifest.jobs.release(lost.lease, "taken away")
    renewal = Heartbeat(manifest, WORKER, AT_ONCE).beat([active(lost), active(kept)])
    assert (renewal.lost, renewal.cancelled) == ({lost.job_id}, frozenset())


def test_progress_is_saved_with_the_beat_and_only_once(manifest: Manifest) -> None:
    job = claimed(manifest)
    found = active(job, Progress("energy", 0.256))
    heartbeat = Heartbeat(manifest, WORKER, AT_ONCE)
    heartbeat.beat([found])
    assert manifest.jobs.get(job.job_id).progress == {"stage": "energy", "fraction": 0.26}
    assert not found.unsaved_progress
    found.receive(Progress("energy", 0.5))
    assert found.unsaved_progress


def test_a_run_without_a_job_has_no_lease_to_keep(manifest: Manifest) -> None:
    assert Heartbeat(manifest, WORKER, AT_ONCE).beat([active(None, Progress("energy", 0.5))]) == NOTHING
