"""Our run launcher against Dagster's own, with the same assets and videos; and what idling costs at 10,000 videos."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from bench.measure import Row, tree_cpu_s
from bench.pretended import processed, project
from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime.dagster_yaml import shipped
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.names import PARTITION_TAG
from content_pipeline.definitions import build_definitions
from content_pipeline.defs.sensors import build_sensors
from content_pipeline.execution.names import PROCESS_VIDEO, VIDEO_PARTITIONS
from content_pipeline.launchers.local.run_launcher import ensure_supervisor
from content_pipeline.launchers.local.supervisor_lock import SupervisorLock
from content_pipeline.settings import Settings
from content_pipeline_tests.helpers import samples

VIDEOS = 12
ROUNDS = 6
SLOTS = 2
MANY = 10_000
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def rows(folder: Path) -> Iterator[Row]:
    yield from _launchers(folder / "launchers")
    yield from _idling(folder / "idling")


# --- runs


def _launchers(folder: Path) -> Iterator[Row]:
    with project(folder, SLOTS) as settings:
        library = folder / "library"
        for number in range(VIDEOS):
            name, seconds = f"{number}.mp4", 2 + number / 10
            made = samples.recording(folder / "made", name, seconds=seconds, size=(160, 90), bursts=((1, 1.5),))
            shutil.copy(made, library / name)
        process = [sys.executable, "-m", "content_pipeline.cli", "process", "--json", "--input", str(library)]
        subprocess.run(process, check=True, capture_output=True)
        ours = _measured(settings, ROUNDS, _our_workspace)
        _use_the_default_launcher(settings)
        theirs = _measured(settings, 1, _their_workspace)
    yield Row("a run of reused stages: CPU of all processes", ours[0], theirs[0], "s", 10, "DefaultRunLauncher")
    yield Row("a run of reused stages: time, two at once", ours[1], theirs[1], "s", 10, "DefaultRunLauncher")


def _measured(settings: Settings, rounds: int, workspace: Any) -> tuple[float, float]:
    """CPU of the whole process tree and time, per run. The runs are created before the clock starts."""
    with open_instance(settings) as instance, workspace(instance, settings) as context:
        keys = sorted(instance.get_dynamic_partitions(VIDEO_PARTITIONS))
        _launched(instance, context, _created(instance, settings, keys[:SLOTS]))  # whatever is loaded once, is
        runs = _created(instance, settings, keys * rounds)
        before_s, started = tree_cpu_s(), time.perf_counter()
        _launched(instance, context, runs)
        wall_s = time.perf_counter() - started
        time.sleep(2)  # the last processes end
        return (tree_cpu_s() - before_s) / len(runs), wall_s / len(runs)


def _created(instance: dg.DagsterInstance, settings: Settings, keys: Sequence[str]) -> list[dg.DagsterRun]:
    job = build_definitions(settings).resolve_job_def(PROCESS_VIDEO)
    return [internals.create_run(instance, job, key, {}) for key in keys]


def _launched(instance: dg.DagsterInstance, workspace: Any, runs: Sequence[dg.DagsterRun]) -> None:
    """Launch runs, never two of a video at a time, as many at once as there are slots, and wait for all."""
    left, under_way = list(runs), dict[str, str]()
    most = SLOTS if workspace is not None else len(runs)  # ours keeps to its slots by itself
    while left or under_way:
        while left and len(under_way) < most and left[0].tags[PARTITION_TAG] not in under_way.values():
            run = left.pop(0)
            instance.launch_run(run.run_id, workspace)
            under_way[run.run_id] = run.tags[PARTITION_TAG]
        time.sleep(0.1)
        for run in instance.get_runs(dg.RunsFilter(run_ids=sorted(under_way), statuses=ENDED)):
            assert run.status is dg.DagsterRunStatus.SUCCESS, run
            del under_way[run.run_id]


@contextmanager
def _our_workspace(instance: dg.DagsterInstance, _settings: Settings) -> Iterator[None]:
    home = Path(instance.root_directory)
    ensure_supervisor(home)
    try:
        yield
    finally:
        supervisor = SupervisorLock(home).holder()
        if supervisor is not None and supervisor.pid is not None:
            os.kill(supervisor.pid, signal.SIGTERM)
        while SupervisorLock(home).holder() is not None:
            time.sleep(0.1)


def _their_workspace(instance: dg.DagsterInstance, _settings: Settings) -> AbstractContextManager[Any]:
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import ModuleTarget

    target = ModuleTarget("content_pipeline.definitions", None, str(Path.cwd()), "content_pipeline")
    return nullcontext(WorkspaceProcessContext(instance, target).__enter__().create_request_context())


def _use_the_default_launcher(settings: Settings) -> None:
    """Dagster as it comes: its own launcher and its own SQLite storage, in a home of its own."""
    home = settings.state_dir / "dagster"
    with open_instance(settings) as instance:
        keys = instance.get_dynamic_partitions(VIDEO_PARTITIONS)
    shutil.rmtree(home)
    home.mkdir()
    config = yaml.safe_load(shipped("dagster.yaml").read_text())
    for ours in ("run_launcher", "storage", "run_monitoring"):
        del config[ours]
    (home / "dagster.yaml").write_text(yaml.safe_dump(config))
    with open_instance(settings) as instance:
        instance.add_dynamic_partitions(VIDEO_PARTITIONS, keys)


# --- idling


def _idling(folder: Path) -> Iterator[Row]:
    """Against the target itself: there is nothing else to compare with."""
    with project(folder, SLOTS) as settings:
        library = folder / "library"
        keys = processed(library, settings, MANY)
        with open_instance(settings) as instance:
            started = time.perf_counter()
            instance.add_dynamic_partitions(VIDEO_PARTITIONS, keys)
            yield Row(f"register {MANY:,} partitions", time.perf_counter() - started, 2.0, "s", 1)
            for sensor in build_sensors(settings, lambda: settings):
                context = dg.build_sensor_context(instance=instance)
                sensor.evaluate_tick(context)
                started = time.perf_counter()
                sensor.evaluate_tick(context)
                yield Row(f"idle tick of {sensor.name}, {MANY:,} videos", time.perf_counter() - started, 1.0, "s", 1)
