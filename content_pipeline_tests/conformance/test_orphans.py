"""Who takes whose job for abandoned: real processes, and a clock that is set."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from content_pipeline.execution.rescue import LAST_CHANCE_S, rescue_orphans
from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.system.process_identity import here, this_process
from content_pipeline_tests.conformance.manifests import LEASE_S, Clock, add, claim


def test_clones_of_a_machine_never_rescue_each_others_healthy_jobs(manifest: Manifest, clock: Clock) -> None:
    place = here()
    assert place is not None
    clone = str(replace(this_process(), place=replace(place, boot="0123456789abcdef"), pid=999_999_999))
    (job_id,) = add(manifest, "a")
    lease = claim(manifest, clone).lease
    for _ in range(20):
        assert rescue_orphans(manifest) == []
        clock.pass_s(LEASE_S / 2)
        assert not manifest.jobs.renew(clone, [lease]).lost
    clock.pass_s(LEASE_S + 1)
    assert [job.job_id for job in rescue_orphans(manifest)] == [job_id], "of a clone the lease decides"


def test_a_worker_of_the_version_before_keeps_its_job_until_its_lease_runs_out(
    manifest: Manifest, clock: Clock
) -> None:
    (job_id,) = add(manifest, "a")
    claim(manifest, "pc:1234abcd-4026531836:999999999:77")
    assert rescue_orphans(manifest) == []
    clock.pass_s(LEASE_S + 1)
    assert [job.job_id for job in rescue_orphans(manifest)] == [job_id]


def test_when_the_clock_is_set_a_worker_that_lives_renews_and_keeps_its_job(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a")
    job = claim(manifest, this_worker())
    clock.pass_s(3600)
    late = threading.Timer(LAST_CHANCE_S / 10, lambda: manifest.jobs.renew(this_worker(), [job.lease]))
    late.start()
    assert rescue_orphans(manifest) == []
    late.join()
    assert manifest.jobs.get(job.job_id).status is State.RUNNING


def test_a_worker_that_hangs_loses_its_job_though_its_process_lives(manifest: Manifest, clock: Clock) -> None:
    (job_id,) = add(manifest, "a")
    claim(manifest, this_worker())
    assert rescue_orphans(manifest) == []
    clock.pass_s(LEASE_S + 1)
    assert [job.job_id for job in rescue_orphans(manifest)] == [job_id]


def test_a_worker_that_was_stopped_gets_no_more_than_its_lease(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a")
    with _worker() as (process, worker):
        claim(manifest, worker)
        clock.pass_s(LEASE_S + 1)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        started_s = time.monotonic()
        assert len(rescue_orphans(manifest)) == 1
        assert time.monotonic() - started_s < LAST_CHANCE_S


def test_the_job_of_a_dead_worker_comes_back_at_once(manifest: Manifest) -> None:
    add(manifest, "a")
    with _worker() as (process, worker):
        claim(manifest, worker)
        assert rescue_orphans(manifest) == []
        process.kill()
        process.wait()
        assert len(rescue_orphans(manifest)) == 1


@contextmanager
def _worker() -> Iterator[tuple[subprocess.Popen[str], str]]:
    tell = (
        "import signal; from content_pipeline.execution.worker_identity import this_worker; "
        "print(this_worker(), flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", f"{tell}; signal.pause()"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def test_an_attempt_is_leased_while_it_runs_and_renews(manifest: Manifest, clock: Clock) -> None:
    add(manifest, "a")
    first = claim(manifest, "one").lease
    assert manifest.jobs.is_leased(first.job_id, first.claim_number)
    assert not manifest.jobs.is_leased(first.job_id, first.claim_number + 1)
    assert manifest.jobs.is_leased("of another manifest", 1)
    clock.pass_s(LEASE_S + 1)
    assert not manifest.jobs.is_leased(first.job_id, first.claim_number)
    rescue_orphans(manifest)
    second = claim(manifest, "two").lease
    assert not manifest.jobs.is_leased(first.job_id, first.claim_number)
    assert manifest.jobs.is_leased(second.job_id, second.claim_number)
