"""The rows of workers: added by a heartbeat, silent after a lease, removed at the end or when they are old."""

from __future__ import annotations

from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.workers import KEPT, WorkerInfo
from content_pipeline.services.workers import describe_workers
from content_pipeline_tests.conformance.manifests import Clock, add, claim


def info(name: str, host: str = "host-a", version: str = "1") -> WorkerInfo:
    return WorkerInfo(name, host, 42, version, "worker", 2, lease_s=90)


def test_a_worker_is_known_from_its_first_heartbeat_on_and_silent_after_its_lease(
    manifest: Manifest, clock: Clock
) -> None:
    manifest.workers.beat(info("w"))
    clock.pass_s(60)
    manifest.workers.beat(info("w"))
    (row,) = manifest.workers.all()
    assert row.info == info("w")
    assert (row.last_heartbeat - row.started_at).total_seconds() == 60
    clock.pass_s(90)
    assert not row.is_silent(manifest.workers.now())
    clock.pass_s(1)
    assert row.is_silent(manifest.workers.now())


def test_those_that_ended_are_removed_and_with_them_who_fell_silent_long_ago(manifest: Manifest, clock: Clock) -> None:
    manifest.workers.beat(info("old"))
    clock.pass_s(KEPT.total_seconds() + 1)
    for name in ("ended", "alive"):
        manifest.workers.beat(info(name))
    manifest.workers.remove(["ended"])
    assert [row.info.worker_id for row in manifest.workers.all()] == ["alive"]


def test_workers_are_described_with_what_they_do(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a.mp4", "b.mp4", "c.mp4")
    for name in ("busy", "idle", "silent"):
        manifest.workers.beat(info(name))
    job = claim(manifest, "busy")
    manifest.jobs.report_progress(job.lease, {"stage": "energy", "fraction": 0.25})
    claim(manifest, "silent")
    clock.pass_s(80)
    claim(manifest, "run:1234")
    manifest.jobs.renew("busy", [job.lease])
    for name in ("busy", "idle"):
        manifest.workers.beat(info(name))
    clock.pass_s(20)
    found = describe_workers(manifest.workers.all(), manifest.jobs.list(), manifest.workers.now())
    states = {one.worker_id: (one.state, one.role, len(one.jobs)) for one in found}
    assert states == {
        "busy": ("busy", "worker", 1),
        "idle": ("idle", "worker", 0),
        "silent": ("stale", "worker", 1),
        "run:1234": ("busy", "run", 1),
    }
    (held,) = next(one for one in found if one.worker_id == "busy").jobs
    assert (held.stage, held.percent, held.lease_left_s) == ("energy", 25, 70)
    (lost,) = next(one for one in found if one.worker_id == "silent").jobs
    assert lost.lease_left_s == -10
