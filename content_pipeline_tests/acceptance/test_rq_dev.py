"""`content-ai dev` on one host and `content-ai worker` on another: a recording that appears is processed through RQ."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from content_pipeline_tests.acceptance.test_postgres_records import PostgresDev
from content_pipeline_tests.conformance import postgres
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.stored_texts import files_holding
from content_pipeline_tests.helpers.valkey import PASSWORD, valkey_server


def test_a_recording_that_appears_is_processed_by_a_worker_that_dev_did_not_start(
    tmp_path: Path, samples_folder: Path
) -> None:
    server = postgres.server()
    with valkey_server() as valkey:
        given = {
            "CONTENT_AI_DB": server.url(server.create()),
            "CONTENT_AI_DAGSTER_STORAGE": "postgres",
            "CONTENT_AI_LAUNCHER__ENGINE": "rq",
            "CONTENT_AI_REDIS_URL": valkey.url,
        }
        dev = PostgresDev(tmp_path / "dev", given)
        command = [sys.executable, "-m", "content_pipeline.cli", "worker"]
        with (tmp_path / "worker.log").open("wb") as log:
            worker = subprocess.Popen(command, env=dev.environment, cwd=dev.folder, stdout=log, stderr=log)
        try:
            dev.start()
            made = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
            shutil.copy(made, dev.library / "game.mp4")
            eventually(lambda: dev.is_done("game.mp4"), f"the montage was made\n{dev.log.read_text()}", 120)
            eventually(lambda: dev.runs().get(dev.job("game.mp4").run_id) == "SUCCESS", "the UI shows the run")
            commands = [(Path("/proc") / str(pid) / "cmdline").read_bytes() for pid in dev.processes()]
            assert len(commands) >= 4 and not any(PASSWORD.encode() in command for command in commands)
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        finally:
            dev.stop()
            for pid in dev.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            worker.wait(30)
        assert files_holding(tmp_path, PASSWORD) == []
