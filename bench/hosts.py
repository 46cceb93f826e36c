"""Several machines: what two workers write together, what eight claim at once, and how many runs go through RQ."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster_postgres import PostgresEventLogStorage

from bench.measure import Row
from bench.records import line
from content_pipeline.dagster_runtime.postgres_storage import PostgresRecords
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest, JobResult
from content_pipeline.settings.database_url import DatabaseUrl
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.rq_hosts import RqProject, rq_project
from content_pipeline_tests.helpers.valkey import valkey_server

WRITERS, EVENTS_EACH = 2, 300
CLAIMERS, CLAIMS_EACH = 8, 60
FEW, MANY = 1_000, 100_000
RUNS = 16
RUNS_A_MINUTE = 10
LONGEST_S = 60.0
FORK = multiprocessing.get_context("fork")


def rows(folder: Path) -> Iterator[Row]:
    server = postgres.start(durable=False)
    try:
        yield _writing(server)
        yield _claiming(server)
        yield from _running(server, folder)
    finally:
        server.stop()


# --- two workers that write Dagster's records


def _writing(server: postgres.Server) -> Row:
    ours = _events_a_second(server, lambda url: PostgresRecords(DatabaseUrl(url)).event_log_storage)
    theirs = _events_a_second(server, lambda url: PostgresEventLogStorage(DatabaseUrl(url).reveal()))
    name = f"events a second of {WRITERS} workers in Postgres"
    return Row(name, ours, theirs, "events/s", 2, "dagster-postgres", "more")


def _events_a_second(server: postgres.Server, storage_at: Callable[[str], Any]) -> float:
    url = server.url(server.create())
    storage_at(url).store_event(line(0))  # its tables are made

    def write(is_ready: Callable[[], None]) -> None:
        storage = storage_at(url)
        storage.store_event(line(0))
        is_ready()
        for number in range(EVENTS_EACH):
            storage.store_event(line(number))

    return WRITERS * EVENTS_EACH / _seconds_together(write, WRITERS)


# --- eight workers that claim


def _claiming(server: postgres.Server) -> Row:
    few_s, many_s = (_seconds_a_claim(server, number) for number in (FEW, MANY))
    name = f"a claim and its end, {CLAIMERS} claimers, {MANY:,} jobs in Postgres: time"
    return Row(name, 1000 * many_s, 1000 * few_s, "ms", 0.8, f"{FEW:,} jobs", note="both databases analysed before")


def _seconds_a_claim(server: postgres.Server, number: int) -> float:
    database = server.create()
    url = server.url(database)
    manifest = Manifest(open_engine(url))
    manifest.jobs.enqueue([JobRequest(f"/games/{one:06}.mp4", "/games") for one in range(number)])
    manifest.close()
    server.execute("ANALYZE", database)

    def claim(is_ready: Callable[[], None]) -> None:
        own = Manifest(open_engine(url))
        is_ready()
        for _ in range(CLAIMS_EACH):
            (job,) = own.jobs.claim(ClaimRequest(f"bench {os.getpid()}"))
            own.jobs.succeed(job.lease, JobResult())

    return _seconds_together(claim, CLAIMERS) / CLAIMS_EACH


def _seconds_together(work: Callable[[Callable[[], None]], None], processes: int) -> float:
    """From the moment when all are ready until the last has ended."""
    ready = FORK.Barrier(processes + 1)
    started = [FORK.Process(target=work, args=(lambda: _wait(ready),)) for _ in range(processes)]
    for process in started:
        process.start()
    _wait(ready)
    began_s = time.perf_counter()
    for process in started:
        process.join(LONGEST_S)
        if process.exitcode != 0:
            raise RuntimeError(f"a process of the bench ended with {process.exitcode}")
    return time.perf_counter() - began_s


def _wait(ready: Any) -> None:
    ready.wait(LONGEST_S)


# --- runs through RQ


def _running(server: postgres.Server, folder: Path) -> Iterator[Row]:
    made = samples.recording(folder, "short.mp4", seconds=6, bursts=((2, 3),))
    alone = _runs_a_minute(server, folder, made, 1)
    yield Row("runs a minute through RQ, 1 worker", alone, RUNS_A_MINUTE, "runs/min", 1, "limit", "more")
    for workers, target in ((2, 1.3), (4, 1.3)):
        rate = _runs_a_minute(server, folder, made, workers)
        note = f"{os.cpu_count()} cores"
        yield Row(
            f"runs a minute through RQ, {workers} workers", rate, alone, "runs/min", target, "1 worker", "more", note
        )


def _runs_a_minute(server: postgres.Server, folder: Path, made: Path, workers: int) -> float:
    """Of recordings of 6 s, with workers that wait already, from the first launch to the last end."""
    with (
        pytest.MonkeyPatch.context() as patch,
        valkey_server() as valkey,
        rq_project(folder / f"of-{workers}", patch, server, valkey) as project,
    ):
        _add(project, made)
        for _ in range(workers):
            project.start_worker()
        eventually(lambda: len(project.manifest.workers.all()) == workers, f"all wait\n{project.logs()}", LONGEST_S)
        began_s = time.perf_counter()
        project.launch_due()
        eventually(lambda: not project.open_runs(), f"all have ended\n{project.logs()}", LONGEST_S)
        took_s = time.perf_counter() - began_s
        if set(project.successes().values()) != {1}:
            raise RuntimeError(f"not every recording succeeded once: {project.successes()}\n{project.logs()}")
        return 60 * RUNS / took_s


def _add(project: RqProject, made: Path) -> None:
    """Other content each: an unused box at the end of a container is no damage."""
    for number in range(RUNS):
        mark = (16).to_bytes(4, "big") + b"free" + f"{number:08d}".encode()
        (project.library / f"game-{number:02}.mp4").write_bytes(made.read_bytes() + mark)
    project.enqueue()
