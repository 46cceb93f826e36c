"""Whatever works with launched runs goes by the launcher that `dagster.yaml` names."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from content_pipeline.execution.launch import Launch
from content_pipeline.launchers.local.run_launcher import WarmRunLauncher
from content_pipeline.launchers.queue_launcher import launched_runs, launcher_of
from content_pipeline.launchers.reconcile import reconcile
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project

RUN_ID = "0b5fbbd2-7c0b-4c2e-9a55-0d0c1f6f2f11"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchedProject]:
    with launched_project(tmp_path, monkeypatch) as project:
        yield project


def use_dagsters_own_launcher(project: LaunchedProject) -> None:
    path = project.home / "dagster.yaml"
    config = yaml.safe_load(path.read_text())
    config["run_launcher"] = {"module": "dagster", "class": "DefaultRunLauncher"}
    config["run_monitoring"]["max_resume_run_attempts"] = 0  # which that one cannot
    path.write_text(yaml.safe_dump(config))


def test_the_launcher_that_ships_is_found_with_its_queue(project: LaunchedProject) -> None:
    project.launch_queue.add(Launch(RUN_ID, "process_video"))
    with project.instance() as instance:
        assert isinstance(launcher_of(instance), WarmRunLauncher)
        assert launched_runs(instance) == {RUN_ID}


def test_runs_of_another_launcher_get_no_supervisor_of_ours(project: LaunchedProject) -> None:
    use_dagsters_own_launcher(project)
    project.launch_queue.add(Launch(RUN_ID, "process_video"))  # left from when ours was in use
    with project.instance() as instance:
        assert launcher_of(instance) is None
        assert launched_runs(instance) == frozenset()
        done = reconcile(project.settings, instance)
    assert done["runs adopted"] == done["runs without a supervisor"] == 0
    assert not (project.home / "supervisor.log").exists()  # it is made when a supervisor is started
