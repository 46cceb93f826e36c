"""Two hosts with the same manifest and the same Dagster records, each with a launch queue and workers of its own."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from content_pipeline.dagster_runtime.names import QUEUE_TAG
from content_pipeline.dagster_runtime.private_api import InstanceRef, WorkerStatus
from content_pipeline.defs.sensors.dispatch_jobs import due_runs
from content_pipeline.execution.worker_identity import this_worker
from content_pipeline.launchers.local.run_launcher import drain_supervisor, end_supervisor
from content_pipeline.launchers.local.supervisor_lock import SupervisorInfo
from content_pipeline.launchers.queue_launcher import QueueRunLauncher, launcher_of
from content_pipeline.launchers.reconcile import reconcile
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import ClaimRequest
from content_pipeline.system.process_identity import here, this_process
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.launching import LaunchedProject, launched_project

STARTED, CANCELED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELED
SLOW = {"RENDER__MODE": "encode", "RENDER__PRESET": "veryslow"}
OTHER_HOST_S_RECORDS = """
storage:
  custom:
    module: content_pipeline.dagster_runtime.storage
    class: SqliteRecords
    config:
      base_dir: {home}
run_launcher:
  module: content_pipeline.launchers.local.run_launcher
  class: WarmRunLauncher
"""


@pytest.fixture
def host_a(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples_folder: Path) -> Iterator[LaunchedProject]:
    """Where the runs are launched: one recording whose montage takes a while."""
    with launched_project(tmp_path / "a", monkeypatch) as project:
        long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
        shutil.copy(long, project.library / "game.mp4")
        project.set(**SLOW)
        project.enqueue()
        yield project


@pytest.fixture
def host_b(host_a: LaunchedProject, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """The same records, and a home of its own: another queue, and no worker."""
    home = tmp_path / "b"
    home.mkdir()
    (home / "dagster.yaml").write_text(OTHER_HOST_S_RECORDS.format(home=host_a.home))
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home))) as instance:
        yield instance
        drain_supervisor(home)


def launcher(instance: dg.DagsterInstance) -> QueueRunLauncher:
    found = launcher_of(instance)
    assert found is not None
    return found


def health(instance: dg.DagsterInstance, run_id: str) -> WorkerStatus:
    return launcher(instance).check_run_worker_health(instance.get_run_by_id(run_id)).status


def elsewhere() -> str:
    """A process like this one, of another machine that was started at another time."""
    return str(replace(this_process(), place=replace(here(), boot="another")))


def launched_and_worked_on(host: LaunchedProject) -> str:
    (run,) = host.launch_due().values()
    eventually(lambda: host.job("game.mp4").video_key, "it is worked on")
    eventually(lambda: host.status(run) is STARTED, "its run has started")
    return run


def test_a_run_of_another_host_is_neither_adopted_nor_ended(
    host_a: LaunchedProject, host_b: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("content_pipeline.launchers.abandoned_runs.ENQUEUEING_S", 0.0)
    run = launched_and_worked_on(host_a)
    mended = reconcile(host_a.settings, host_b)
    assert (mended["runs adopted"], mended["runs closed"], mended["jobs rescued"]) == (0, 0, 0)
    assert not launcher(host_b).launch_queue.run_ids() and not launcher(host_b).has_workers()
    assert health(host_b, run) is WorkerStatus.RUNNING
    assert (host_a.status(run), host_a.job("game.mp4").run_id) == (STARTED, run)


def test_a_run_is_terminated_from_another_host_and_cancelled_only_when_its_work_has_ended(
    host_a: LaunchedProject, host_b: dg.DagsterInstance
) -> None:
    run = launched_and_worked_on(host_a)
    child = host_a.child_of(run)
    os.kill(child, signal.SIGSTOP)  # it cannot end yet
    assert launcher(host_b).terminate(run)
    eventually(lambda: host_a.job("game.mp4").cancel_requested, "the request is in the manifest")
    assert host_a.status(run) is dg.DagsterRunStatus.CANCELING
    os.kill(child, signal.SIGCONT)
    assert host_a.ends(run, 30) is CANCELED
    assert host_a.job("game.mp4").status is State.CANCELLED
    assert not Path(f"/proc/{child}").exists()
    assert not launcher(host_b).has_workers(), "nobody was started here for it"


def test_a_run_that_waits_on_another_host_is_terminated_at_once_with_its_job(
    host_a: LaunchedProject, host_b: dg.DagsterInstance
) -> None:
    (run,) = _queued_elsewhere(host_a, host_b)
    assert launcher(host_b).terminate(run)
    assert (host_a.status(run), host_a.job("game.mp4").status) == (CANCELED, State.CANCELLED)


def test_a_run_of_a_host_that_died_ends_with_its_lease_and_goes_on_here(
    host_a: LaunchedProject, host_b: dg.DagsterInstance
) -> None:
    (run,) = _queued_elsewhere(host_a, host_b)
    job = host_a.job("game.mp4")
    host_a.manifest.jobs.claim(ClaimRequest(elsewhere(), job_ids=[job.job_id], run_id=run))
    assert health(host_b, run) is WorkerStatus.RUNNING, "its lease is good, and nobody here can ask after the process"
    eventually(lambda: reconcile(host_a.settings, host_b)["jobs rescued"], "its lease ran out")
    assert health(host_b, run) is WorkerStatus.FAILED


def test_a_supervisor_of_another_host_is_never_signalled_though_its_pid_is_somebody_s_here(tmp_path: Path) -> None:
    assert end_supervisor(SupervisorInfo(worker=this_worker(), pid=os.getpid()), signal.SIGCONT), "one from here is"
    assert not end_supervisor(SupervisorInfo(worker=elsewhere(), pid=os.getpid()))


def test_a_queue_keeps_its_name_and_another_folder_has_another(host_a: LaunchedProject, tmp_path: Path) -> None:
    assert host_a.launch_queue.id == host_a.launch_queue.id
    assert host_a.launch_queue.id != type(host_a.launch_queue)(tmp_path / "another").id


def _queued_elsewhere(host: LaunchedProject, instance: dg.DagsterInstance) -> list[str]:
    """A run that a host has put into its queue, where nobody has taken it yet."""
    due = due_runs(host.settings, instance, datetime.now(UTC))
    runs = [host._create(instance, one.partition_key, one.tag, (), {QUEUE_TAG: "of another host"}) for one in due]
    return [run.run_id for run in runs]
