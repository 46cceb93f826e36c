"""A job that requires a capability is claimed by a worker that has it, and by nobody else."""

from __future__ import annotations

from dataclasses import replace

from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobRequest, JobTerms
from content_pipeline.manifest.requirements import capabilities_of, met_by, unmet
from content_pipeline.manifest.workers import WorkerInfo
from content_pipeline_tests.conformance.manifests import Clock

PLAIN, ENCODER = met_by([]), met_by(["nvenc", "fast-disk"])


def add(manifest: Manifest, name: str, requires: str | None = None) -> None:
    manifest.jobs.enqueue([JobRequest(f"/games/{name}", "/games", requires=requires)])


def claim(manifest: Manifest, requirements: frozenset[str | None] | None, number: int = 9) -> list[str]:
    claimed = manifest.jobs.claim(ClaimRequest("worker", number, requirements=requirements))
    return [job.subject.rpartition("/")[2] for job in claimed]


def job_of(manifest: Manifest, name: str) -> Job:
    (found,) = [job for job in manifest.jobs.list() if job.subject == f"/games/{name}"]
    return found


def test_a_claim_takes_what_requires_nothing_and_what_the_worker_can_do(manifest: Manifest) -> None:
    for name, requires in (("a", "nvenc"), ("b", None), ("c", "other"), ("d", "fast-disk")):
        add(manifest, name, requires)
    assert [job.subject for job in manifest.jobs.due(ClaimRequest("w", 9, requirements=PLAIN))] == ["/games/b"]
    assert claim(manifest, PLAIN) == ["b"]
    assert claim(manifest, PLAIN) == []
    assert claim(manifest, ENCODER, number=1) == ["a"], "the first asked for, not the first that requires nothing"
    assert claim(manifest, ENCODER) == ["d"]
    assert claim(manifest, frozenset(["other"])) == ["c"]


def test_a_named_job_is_not_claimed_by_one_who_cannot_do_it(manifest: Manifest) -> None:
    add(manifest, "a", "nvenc")
    named = ClaimRequest("worker", job_ids=[job_of(manifest, "a").job_id], ignore_backoff=True)
    assert manifest.jobs.claim(replace(named, requirements=PLAIN)) == []
    assert [job.requires for job in manifest.jobs.claim(replace(named, requirements=ENCODER))] == ["nvenc"]


def test_asking_again_replaces_what_is_required_of_what_waits(manifest: Manifest) -> None:
    add(manifest, "a", "nvenc")
    ids = [job_of(manifest, "a").job_id]
    manifest.jobs.ask_again(ids, "from a watched folder", JobTerms())
    assert job_of(manifest, "a").requires == "nvenc", "nobody named other terms"
    manifest.jobs.ask_again(ids, "asked for", JobTerms(options={}, requires=None))
    assert claim(manifest, PLAIN) == ["a"]


def test_what_nobody_can_do_is_counted_by_the_workers_that_speak(manifest: Manifest, clock: Clock) -> None:
    for name, requires in (("a", "nvenc"), ("b", "nvenc"), ("c", "fast-disk"), ("d", None)):
        add(manifest, name, requires)
    manifest.workers.beat(WorkerInfo("w", "host", 1, "1", "worker", 1, 90, ("nvenc",)))

    def missing() -> dict[str, int]:
        heard = capabilities_of(manifest.workers.all(), manifest.workers.now())
        return unmet(manifest.jobs.waiting_requirements(), heard)

    assert missing() == {"fast-disk": 1}
    clock.pass_s(91)
    assert missing() == {"fast-disk": 1, "nvenc": 2}, "it fell silent"
    claim(manifest, ENCODER)
    assert missing() == {}, "what runs does not wait"
