import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from content_pipeline.launchers.local.supervisor_lock import SupervisorLock
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project


def supervise(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "content_pipeline.launchers.local.supervisor", "--idle-seconds", "0"]
    environment = {**os.environ, **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchedProject]:
    with launched_project(tmp_path, monkeypatch) as project:
        yield project


def test_a_supervisor_without_work_says_who_it_is_and_leaves_in_silence(project: LaunchedProject) -> None:
    done = supervise()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    latest = SupervisorLock(project.home).latest_holder()
    assert latest is not None and latest.worker is not None and latest.manifest is not None


@pytest.mark.usefixtures("project")
def test_a_supervisor_that_cannot_start_says_why_in_one_line() -> None:
    done = supervise(CONTENT_AI_DETECTION__RMS_THRESHOLD="loud")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("The supervisor ended: ") and "rms_threshold" in line
