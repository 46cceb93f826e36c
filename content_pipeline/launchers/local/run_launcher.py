"""The launcher of one machine: launches are files in a folder, and a supervisor forks a warm child for each.

It sees to it that a supervisor lives: found by its lock, started when there is none, replaced when it is outdated.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline import version
from content_pipeline.dagster_runtime.instance import home_of
from content_pipeline.dagster_runtime.names import owner_of
from content_pipeline.dagster_runtime.private_api import (
    CheckRunHealthResult,
    ConfigurableClass,
    ConfigurableClassData,
    WorkerStatus,
)
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.manifest_identity import current_manifest
from content_pipeline.execution.worker_identity import is_in_this_place, send_signal
from content_pipeline.launchers.launch_queue import LaunchQueue
from content_pipeline.launchers.local.folder_launch_queue import FolderLaunchQueue
from content_pipeline.launchers.local.supervisor_lock import SupervisorInfo, SupervisorLock
from content_pipeline.launchers.queue_launcher import QueueRunLauncher
from content_pipeline.system.private_files import private_file

IDLE_S = 300.0
LAST_LINES_BYTES = 2000
LONGEST_LOG_BYTES = 1 << 20
ON_ITS_WAY_S = 30.0

_started: dict[Path, tuple[subprocess.Popen[bytes], float]] = {}


class WarmRunLauncher(QueueRunLauncher, ConfigurableClass):
    """One supervisor per Dagster home forks a child per run, with everything heavy loaded already."""

    def __init__(self, idle_seconds: float = IDLE_S, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of Dagster's mix-in
        self._inst_data = inst_data
        self._idle_s = idle_seconds

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {
            "idle_seconds": dg.Field(
                dg.IntSource,
                default_value=int(IDLE_S),
                description="Seconds without work after which the workers exit.",
            )
        }

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> WarmRunLauncher:
        return cls(inst_data=inst_data, **config_value)

    @property
    def _home(self) -> Path:
        return home_of(self._instance)

    @property
    def launch_queue(self) -> LaunchQueue:
        return FolderLaunchQueue(self._home)

    def start_workers(self) -> None:
        ensure_supervisor(self._home, self._idle_s)

    def has_workers(self) -> bool:
        return SupervisorLock(self._home).holder() is not None

    def health_of(self, launch: Launch) -> CheckRunHealthResult:
        lock = SupervisorLock(self._home)
        supervisor = lock.holder()
        if supervisor is None or lock.is_hung(supervisor):
            return CheckRunHealthResult(WorkerStatus.FAILED, "the supervisor of the workers is gone or hangs")
        return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=launch.worker)

    def get_run_worker_debug_info(self, run: dg.DagsterRun, include_container_logs: bool | None = True) -> str | None:
        launch, supervisor = self.launch_queue.get(run.run_id), SupervisorLock(self._home).holder()
        if launch is None:
            return f"not executed by the workers; owner {owner_of(run.tags)}"
        alive = "gone" if supervisor is None else f"alive (pid {supervisor.pid})"
        lines = [f"supervisor {alive}; worker {launch.worker}; pid {launch.pid}; log {launch.log}"]
        if include_container_logs and launch.log is not None and Path(launch.log).exists():
            lines.append(Path(launch.log).read_bytes()[-LAST_LINES_BYTES:].decode(errors="replace"))
        return "\n".join(lines)

    def dispose(self) -> None:
        """Nothing is held: the supervisor lives on, and stops by itself when it is idle."""


def ensure_supervisor(home: Path, idle_s: float = IDLE_S) -> None:
    """Returns at once; what was launched waits for it. Two that start at one moment agree by the lock."""
    on_its_way = _is_on_its_way(home)
    lock = SupervisorLock(home)
    supervisor = lock.holder()
    if supervisor is not None and lock.is_hung(supervisor) and end_supervisor(supervisor):
        supervisor = None  # stopped, or stuck: its jobs' leases have run out, and its lock was in the way
    if on_its_way or (supervisor is not None and _fits(supervisor, current_manifest())):
        return
    # It takes the place of one that does not fit, once it has reached its own manifest.
    _started[home] = _start(home, idle_s), time.monotonic()


def _is_on_its_way(home: Path) -> bool:
    """Whether one that this process started has not had the lock yet. Asks after it: none is left as a zombie."""
    process, since_s = _started.get(home, (None, 0.0))
    if process is None or process.poll() is not None or time.monotonic() - since_s > ON_ITS_WAY_S:
        return False
    latest = SupervisorLock(home).latest_holder()
    if latest is None or latest.worker is None:
        return True
    return latest.pid != process.pid or not is_in_this_place(latest.worker)


def is_outdated(home: Path, manifest: str) -> bool:
    """Whether a supervisor lives that runs other code than this, or serves another manifest or an old password."""
    supervisor = SupervisorLock(home).holder()
    return supervisor is not None and not _fits(supervisor, manifest)


def _fits(supervisor: SupervisorInfo, manifest: str | None) -> bool:
    """Of one that has not said who it is yet, and where the settings cannot be read, the best is hoped."""
    if supervisor.build is None:
        return True
    return supervisor.build == build() and (manifest is None or supervisor.manifest == manifest)


def drain_supervisor(home: Path) -> None:
    """Ask the supervisor, if one lives, to end what it does and to go."""
    supervisor = SupervisorLock(home).holder()
    if supervisor is not None:
        end_supervisor(supervisor, signal.SIGTERM)


def end_supervisor(supervisor: SupervisorInfo, number: signal.Signals = signal.SIGKILL) -> bool:
    """Signal this supervisor; False when it is not here: in another container its pid is somebody else's."""
    return supervisor.worker is not None and send_signal(supervisor.worker, number)


def _start(home: Path, idle_s: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "content_pipeline.launchers.local.supervisor", "--idle-seconds", str(idle_s)]
    with private_file(_log(home)).open("ab") as output:
        return subprocess.Popen(
            command,
            env={**os.environ, "DAGSTER_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # it outlives whoever started it, and a terminal's Ctrl-C is not for it
        )


def _log(home: Path) -> Path:
    """Where a supervisor says what went wrong; a long one is put aside, in the place of the one before it."""
    log = home / "supervisor.log"
    if log.exists() and log.stat().st_size > LONGEST_LOG_BYTES:
        log.replace(home / "supervisor.log.1")
    return log


def build() -> str:
    """Which code this is: changes with every edit of the package."""
    root = Path(version.__file__).parent
    marks = sorted((str(path.relative_to(root)), path.stat().st_mtime_ns) for path in root.rglob("*.py"))
    return hashlib.sha256(repr((version.__version__, marks)).encode()).hexdigest()[:16]
