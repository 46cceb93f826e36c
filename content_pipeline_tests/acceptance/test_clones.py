"""Two clones of one machine on one manifest: equal host names and machine ids, other boot ids, other pids."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

ANOTHER_BOOT = "0a1b2c3d-0000-4000-8000-000000000000"
COMMAND = [sys.executable, "-m", "content_pipeline.cli", "process"]
# In namespaces of its own, where the kernel seems to be another that was booted at another time.
CLONE = ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "sh", "-c"]
BOOTED = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


def clone(boot_id: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLONE, BOOTED, str(boot_id), *command], capture_output=True, text=True, check=False)


def test_a_clone_never_takes_a_healthy_job_for_abandoned(
    tmp_path: Path, samples_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot_id = tmp_path / "boot_id"
    boot_id.write_text(ANOTHER_BOOT + "\n")
    if clone(boot_id, "cat", "/proc/sys/kernel/random/boot_id").stdout.strip() != ANOTHER_BOOT:
        pytest.skip("this user may not make namespaces")
    library = tmp_path / "library"
    library.mkdir()
    shutil.copy(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), library / "game.mp4")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONTENT_AI_LIBRARY__SETTLE_S", "0")
    command = [*COMMAND, "--input", str(library)]
    # It hangs after its sound was measured, and renews its lease: as healthy as one that takes long.
    busy = subprocess.Popen(command, env={**os.environ, "CONTENT_AI_KILL_AT": "hang:energy_sealed"})
    try:
        eventually(lambda: list(tmp_path.glob(".content-ai/artifacts/energy/*/*/artifact.json")), "it is at work")
        manifest = open_manifest(load().settings)
        (before,) = manifest.jobs.list()
        for _ in range(3):
            looked = clone(boot_id, *command, "--no-process")
            assert looked.returncode == 0, looked.stderr
        (after,) = manifest.jobs.list()
        assert (after.status, after.claim_count, after.worker_id) == (State.RUNNING, 1, before.worker_id)
        assert [one.outcome for one in manifest.jobs.attempts(after.job_id)] == [None]
    finally:
        busy.send_signal(signal.SIGINT)
        busy.wait(60)
