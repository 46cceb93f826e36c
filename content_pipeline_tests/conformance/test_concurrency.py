"""Many real processes at one manifest: nothing is lost, nothing is done twice, whoever stops or dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
import sqlalchemy as sa

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.lease import fenced_job
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobFailure, JobResult
from content_pipeline.manifest.schema import state_transitions
from content_pipeline_tests.conformance import workers
from content_pipeline_tests.conformance.manifests import add, claim, database_of, dump, many, opened
from content_pipeline_tests.helpers.chaos import by_size
from content_pipeline_tests.helpers.eventually import eventually

PROCESSES = 16
JOBS = by_size(1_000, 10_000)
SHORT_LEASE_S = 0.5

fork = multiprocessing.get_context("fork")
_all: list[BaseProcess] = []


@pytest.fixture(autouse=True)
def _leave_no_process_behind() -> Iterator[None]:
    yield
    for process in _all:
        process.kill()
        process.join()
    _all.clear()


def _started(target: Any, *args: Any) -> BaseProcess:
    process = fork.Process(target=target, args=args, daemon=True)
    process.start()
    _all.append(process)
    return process


def _joined(processes: Sequence[BaseProcess], within_s: float = 60) -> list[int | None]:
    """How they ended."""
    deadline = time.monotonic() + within_s
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    return [process.exitcode for process in processes]


def _heard(ear: Connection) -> Any:
    assert ear.poll(60), "nothing was said"
    return ear.recv()


def _transitions(manifest: Manifest) -> int:
    with database_of(manifest).engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(state_transitions)).scalar_one()


@pytest.mark.timeout(1200)
def test_sixteen_processes_do_every_job_exactly_once(url: str, record_property: Callable[[str, object], None]) -> None:
    record_property("seconds", _seconds_of_all_jobs(url, JOBS))


def _seconds_of_all_jobs(url: str, jobs: int) -> float:
    with opened(url, None) as manifest:
        manifest.jobs.enqueue(many(jobs))
        began = time.monotonic()
        processes = [_started(workers.work_until_done, url, f"worker {n}", 1 + n % 4) for n in range(PROCESSES)]
        assert _joined(processes, 1000) == [0] * PROCESSES
        took_s = time.monotonic() - began
        counts = manifest.jobs.counts()
        assert {state: number for state, number in counts.items() if number} == {State.SUCCEEDED: jobs}
        assert _transitions(manifest) == 2 * jobs
        assert all(job.claim_count == 1 for job in manifest.jobs.list())
        assert len({job.results["by"] for job in manifest.jobs.list()}) > 1
        assert manifest.check() == []
    return took_s


def test_a_worker_that_slept_past_its_lease_writes_nothing_when_it_wakes(url: str) -> None:
    with opened(url, None, lease_s=SHORT_LEASE_S) as manifest:
        (job_id,) = add(manifest, "a")
        ear, mouth = fork.Pipe(duplex=False)
        sleeper = _started(workers.claim_and_stop, url, SHORT_LEASE_S, mouth)
        assert _heard(ear) == job_id
        assert [job.job_id for job in eventually(manifest.jobs.rescue, "the job is rescued")] == [job_id]
        winner = claim(manifest, "winner")
        manifest.jobs.succeed(winner.lease, JobResult(results={"by": "winner"}))
        before = dump(manifest)
        assert sleeper.pid is not None
        os.kill(sleeper.pid, signal.SIGCONT)
        refused = _heard(ear)
        assert refused and all(refused.values()), refused
        assert _heard(ear) == [job_id]
        assert _joined([sleeper]) == [0]
        assert dump(manifest) == before
        assert manifest.jobs.get(job_id).results == {"by": "winner"}
        assert manifest.check() == []


def test_a_worker_killed_inside_a_transaction_leaves_no_trace(url: str) -> None:
    with opened(url, None) as manifest:
        add(manifest, "a", "b")
        before = dump(manifest)
        ear, mouth = fork.Pipe(duplex=False)
        doomed = _started(workers.hold_a_transaction_open, url, mouth)
        assert _heard(ear) == "inside"
        doomed.kill()
        assert _joined([doomed]) == [-signal.SIGKILL]
        # On Postgres the server takes a moment to notice.
        eventually(
            lambda: manifest.jobs.claim(ClaimRequest("next", 2, job_ids=[job.job_id for job in manifest.jobs.list()])),
            "jobs can be claimed",
        )
        manifest.jobs.rescue(["next"])
        assert {job.subject for job in manifest.jobs.list()} == {row[3] for row in before["job_items"]}
        assert manifest.check() == []


def test_workers_killed_at_any_moment_lose_nothing(url: str) -> None:
    rounds = by_size(5, 20)
    with opened(url, None) as manifest:
        manifest.jobs.enqueue(many(200 * rounds))
        for number in range(rounds):
            ear, mouth = fork.Pipe(duplex=False)
            names = [f"victim {number}-{index}" for index in range(4)]
            victims = [_started(workers.crash_again_and_again, url, name, mouth) for name in names]
            for _ in victims:
                _heard(ear)
            enough = _succeeded(manifest) + 30
            eventually(partial(_has_succeeded, manifest, enough), f"{enough} jobs have succeeded")
            for victim in victims:
                victim.kill()
            assert _joined(victims) == [-signal.SIGKILL] * 4
            assert manifest.check() == []
            manifest.jobs.rescue(names)
            assert manifest.jobs.workers() == []
            assert manifest.check() == []
        assert sum(manifest.jobs.counts().values()) == 200 * rounds


def _succeeded(manifest: Manifest) -> int:
    return manifest.jobs.counts()[State.SUCCEEDED]


def _has_succeeded(manifest: Manifest, number: int) -> bool:
    return _succeeded(manifest) >= number


def test_an_engine_survives_a_fork(url: str) -> None:
    with opened(url, None) as manifest:
        add(manifest, "a", "b", "c")
        claim(manifest, "parent")
        child = _started(_work_with_the_parents_manifest, manifest)
        assert _joined([child]) == [0]
        claim(manifest, "parent")
        assert sorted(job.worker_id or "" for job in manifest.jobs.list()) == ["child", "parent", "parent"]
        assert manifest.check() == []


def _work_with_the_parents_manifest(manifest: Manifest) -> None:
    assert claim(manifest, "child").worker_id == "child"


def test_a_fork_inside_a_transaction_does_not_end_it(url: str) -> None:
    with opened(url, None) as manifest:
        add(manifest, "a")
        job = claim(manifest)
        with database_of(manifest).transaction() as tx:
            fenced_job(tx, job.lease)
            child = _started(_look, manifest)
            assert _joined([child]) == [0]
        manifest.jobs.succeed(job.lease, JobResult())
        assert manifest.check() == []


def _look(manifest: Manifest) -> None:
    import gc

    gc.collect()
    assert len(manifest.jobs.list()) == 1


def test_asking_for_the_same_in_different_orders_at_once_is_asking_once(url: str) -> None:
    with opened(url, None) as manifest:
        barrier = fork.Barrier(4)
        processes = [_started(_ask_for, url, number, barrier) for number in range(4)]
        assert _joined(processes) == [0] * 4
        assert sum(manifest.jobs.counts().values()) == 5 * 1500
        assert manifest.check() == []


def _ask_for(url: str, number: int, barrier: Any) -> None:
    manifest = Manifest(open_engine(url))
    for library in "abcde":
        requests = many(1500, f"/{library}")
        barrier.wait(60)
        manifest.jobs.enqueue(requests if number % 2 else requests[::-1])


def test_when_a_pause_is_over_one_of_many_processes_tries(url: str) -> None:
    with opened(url, None) as manifest:
        manifest.jobs.enqueue(many(50))
        manifest.jobs.fail(claim(manifest).lease, JobFailure("disk_full", "full", RetryPolicy.ENVIRONMENTAL))
        with database_of(manifest).engine.connect() as connection:
            connection.exec_driver_sql("UPDATE breakers SET until = '2026-01-01 00:00:00'")
            connection.commit()
        (ear, mouth), barrier = fork.Pipe(duplex=False), fork.Barrier(8)
        processes = [_started(_try, url, barrier, mouth) for _ in range(8)]
        assert sum(_heard(ear) for _ in processes) == 1
        assert _joined(processes) == [0] * 8


def _try(url: str, barrier: Any, mouth: Connection) -> None:
    manifest = Manifest(open_engine(url))
    manifest.jobs.counts()
    barrier.wait(60)
    mouth.send(len(manifest.jobs.claim(ClaimRequest("worker", 5))))
