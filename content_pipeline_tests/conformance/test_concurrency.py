"""Many real processes at one manifest: nothing is lost, nothing is done twice, whoever stops or dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import QueueType, Result
from content_pipeline.manifest.schema import state_transitions
from content_pipeline.manifest.store import Manifest
from content_pipeline_tests.conformance import workers
from content_pipeline_tests.conformance.manifests import add, claim, dump, many, opened
from content_pipeline_tests.conformance.workers import until

PROCESSES = 16
# The whole number with CONTENT_AI_CHAOS=1, as `make chaos` sets it.
JOBS = 10_000 if os.environ.get("CONTENT_AI_CHAOS") else 1_000
SHORT_LEASE_S = 0.5

fork = multiprocessing.get_context("fork")


def _started(target: Any, *args: Any) -> BaseProcess:
    process = fork.Process(target=target, args=args, daemon=True)
    process.start()
    return process


def _transitions(manifest: Manifest) -> int:
    with manifest.engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(state_transitions)).scalar_one()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("journal", ["as it comes", "wal"])
def test_sixteen_processes_do_every_job_exactly_once(
    url: str, kind: str, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if journal == "wal":
        if kind != "sqlite":
            pytest.skip("a journal is SQLite's")
        # What a newer SQLite would choose.
        monkeypatch.setattr("content_pipeline.manifest.sqlite.wal_is_safe", lambda version: True)
    jobs = JOBS if journal != "wal" else JOBS // 2
    with opened(url, None) as manifest:
        manifest.enqueue(many(jobs))
        began = time.monotonic()
        processes = [_started(workers.work_until_done, url, f"worker {n}", 1 + n % 4) for n in range(PROCESSES)]
        for process in processes:
            process.join(1000)
        print(f"\n{jobs} jobs on {kind}, {journal}: {time.monotonic() - began:.1f} s")
        assert [process.exitcode for process in processes] == [0] * PROCESSES
        counts = manifest.counts()[QueueType.PROCESSING]
        assert {state: number for state, number in counts.items() if number} == {State.SUCCEEDED: jobs}
        assert _transitions(manifest) == 2 * jobs
        assert all(job.claim_count == 1 for job in manifest.list())
        assert len({job.results["by"] for job in manifest.list()}) > 1
        assert manifest.check() == []


def test_a_worker_that_slept_past_its_lease_writes_nothing_when_it_wakes(url: str) -> None:
    with opened(url, None, lease_s=SHORT_LEASE_S) as manifest:
        (job_id,) = add(manifest, "a")
        said = fork.Queue()
        sleeper = _started(workers.claim_and_stop, url, SHORT_LEASE_S, said)
        assert said.get(timeout=60) == job_id
        assert [job.job_id for job in until(manifest.rescue)] == [job_id]
        winner = claim(manifest, "winner")
        manifest.succeed(winner.lease, Result(results={"by": "winner"}))
        before = dump(manifest.engine)
        assert sleeper.pid is not None
        os.kill(sleeper.pid, signal.SIGCONT)
        refused = said.get(timeout=60)
        assert refused and all(refused.values()), refused
        assert said.get(timeout=60) == [job_id]
        sleeper.join(60)
        assert dump(manifest.engine) == before
        assert manifest.get(job_id).results == {"by": "winner"}
        assert manifest.check() == []


def test_a_worker_killed_inside_a_transaction_leaves_no_trace(url: str) -> None:
    with opened(url, None) as manifest:
        add(manifest, "a", "b")
        before = dump(manifest.engine)
        said = fork.Queue()
        doomed = _started(workers.hold_a_transaction_open, url, said)
        assert said.get(timeout=60) == "inside"
        doomed.kill()
        doomed.join(60)
        # On Postgres the server takes a moment to notice.
        until(lambda: manifest.claim("next", 2, job_ids=[job.job_id for job in manifest.list()]) or None)
        manifest.rescue(["next"])
        assert {job.video_path for job in manifest.list()} == {row[3] for row in before["job_items"]}
        assert manifest.check() == []


def test_workers_killed_at_any_moment_lose_nothing(url: str) -> None:
    rounds = 40 if os.environ.get("CONTENT_AI_CHAOS") else 5
    with opened(url, None) as manifest:
        manifest.enqueue(many(400 * rounds))
        for number in range(rounds):
            said = fork.Queue()
            names = [f"victim {number}-{index}" for index in range(4)]
            victims = [_started(workers.crash_again_and_again, url, name, said) for name in names]
            for _ in victims:
                said.get(timeout=60)
            enough = manifest.counts()[QueueType.PROCESSING][State.SUCCEEDED] + 30
            until(lambda enough=enough: manifest.counts()[QueueType.PROCESSING][State.SUCCEEDED] >= enough)
            for victim in victims:
                victim.kill()
            for victim in victims:
                victim.join(60)
            assert manifest.check() == []
            manifest.rescue(names)
            assert manifest.workers() == []
            assert manifest.check() == []
        assert sum(manifest.counts()[QueueType.PROCESSING].values()) == 400 * rounds


def test_an_engine_survives_a_fork(url: str) -> None:
    with opened(url, None) as manifest:
        add(manifest, "a", "b", "c")
        claim(manifest, "parent")
        child = _started(_work_with_the_parents_manifest, manifest)
        child.join(60)
        assert child.exitcode == 0
        claim(manifest, "parent")
        assert sorted(job.worker_id or "" for job in manifest.list()) == ["child", "parent", "parent"]
        assert manifest.check() == []


def _work_with_the_parents_manifest(manifest: Manifest) -> None:
    assert claim(manifest, "child").worker_id == "child"


def test_a_fork_inside_a_transaction_does_not_end_it(url: str) -> None:
    with opened(url, None) as manifest:
        add(manifest, "a")
        job = claim(manifest)
        with manifest.fenced(job.lease):
            child = _started(_look, manifest)
            child.join(60)
            assert child.exitcode == 0
        manifest.succeed(job.lease, Result())
        assert manifest.check() == []


def _look(manifest: Manifest) -> None:
    import gc

    gc.collect()
    assert len(manifest.list()) == 1


def test_asking_for_the_same_in_different_orders_at_once_is_asking_once(url: str) -> None:
    with opened(url, None) as manifest:
        processes = [_started(_ask_for, url, number) for number in range(6)]
        for process in processes:
            process.join(60)
        assert [process.exitcode for process in processes] == [0] * 6
        assert len(manifest.list()) == 300
        assert manifest.check() == []


def _ask_for(url: str, number: int) -> None:
    manifest = Manifest(open_engine(url))
    for start in range(5):
        requests = [*many(300)[start * 60 :], *many(start * 60)]
        manifest.enqueue(requests if number % 2 else requests[::-1])


def test_when_a_pause_is_over_one_of_many_processes_tries(url: str, tmp_path: Path) -> None:
    from content_pipeline.errors import RetryPolicy

    with opened(url, None) as manifest:
        manifest.enqueue(many(50))
        manifest.fail(claim(manifest).lease, "disk_full", "full", RetryPolicy.ENVIRONMENTAL)
        with manifest.engine.connect() as connection:
            connection.exec_driver_sql("UPDATE breakers SET until = '2026-01-01 00:00:00'")
            connection.commit()
        said, barrier = fork.Queue(), fork.Barrier(8)
        processes = [_started(_try, url, barrier, said) for _ in range(8)]
        claimed = [said.get(timeout=60) for _ in processes]
        for process in processes:
            process.join(60)
        assert sum(claimed) == 1


def _try(url: str, barrier: Any, said: Any) -> None:
    manifest = Manifest(open_engine(url))
    manifest.counts()
    barrier.wait(60)
    said.put(len(manifest.claim("worker", 5)))
