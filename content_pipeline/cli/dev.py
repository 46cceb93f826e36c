"""`content-ai dev`: Dagster's UI and daemon, on a state folder that lasts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_error, print_note, print_result
from content_pipeline.errors import PipelineError
from content_pipeline.library.keys import canonical_path
from content_pipeline.settings import CONFIG_FILE_NAME, ENV_PREFIX, Settings
from content_pipeline.settings.value_types import expand_home
from content_pipeline.system.child_process import die_with_parent_hook

GRACE_S = 15.0
TOO_SOON_S = 10.0


@click.command()
@click.option("-w", "--watch", "folders", multiple=True, type=click.Path(), help="A folder to watch; may be repeated.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address the UI listens on.")
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Port of the UI.")
@settings_options
def dev(
    folders: tuple[str, ...],
    host: str,
    port: int,
    config_file: str | None,
    state_dir: str | None,
    assignments: tuple[str, ...],
) -> int:
    """Start the Dagster UI and daemon, watch folders, and process new recordings. Ctrl-C stops everything."""
    watched = [str(canonical_path(Path(folder))) for folder in folders]
    flags: dict[str, Any] = {"library.folders": watched or None}
    settings = resolve(config_file, state_dir, assignments, flags).settings
    from content_pipeline.dagster_runtime.dagster_yaml import shipped
    from content_pipeline.dagster_runtime.instance import dagster_home

    home = dagster_home(settings)
    if settings.launcher.engine == "rq":
        _expect_redis(settings)
    environment = {
        **os.environ,
        **_environment(settings, watched, config_file, assignments),
        "DAGSTER_HOME": str(home),
    }
    workspace = ["-w", str(shipped("workspace.yaml"))]
    commands = {
        "UI": [sys.executable, "-m", "dagster_webserver", *workspace, "--host", host, "--port", str(port)],
        "daemon": [str(Path(sys.executable).parent / "dagster-daemon"), "run", *workspace],
    }
    print_result(f"State:    {settings.state_dir.absolute()}")
    print_result(f"Output:   {settings.output_dir.absolute()}")
    print_result(f"Watching: {', '.join(map(str, settings.library.folders)) or 'no folder (use --watch FOLDER)'}")
    if settings.launcher.engine == "rq":
        print_result(f"Workers:  those of any host at {settings.redis_url}; start `content-ai worker` on each")
    print_result(f"UI:       http://{host}:{port}   (Ctrl-C stops it)")
    for folder in settings.library.folders:
        if not folder.is_dir():
            print_note(f"Warning: the watched folder {folder} does not exist.")
    sys.stdout.flush()
    address = f"http://{host}:{port}"
    return _Services(commands, environment).watch(_SettingsFile(config_file, environment, address), home)


def _expect_redis(settings: Settings) -> None:
    """Said now, and not by a run that waits: Redis cannot be reached, or Dagster's home names another launcher."""
    from content_pipeline.dagster_runtime.instance import open_instance
    from content_pipeline.launchers.configured_launcher import expect_engine
    from content_pipeline.launchers.queue_launcher import launcher_of
    from content_pipeline.launchers.rq.redis_server import RedisServer, require_postgres

    require_postgres(settings)
    RedisServer(settings).expect()
    with open_instance(settings) as instance:
        expect_engine(settings, launcher_of(instance))


def _environment(
    settings: Settings, watched: list[str], config_file: str | None, assignments: tuple[str, ...]
) -> dict[str, str]:
    """Flags reach the code location the way the environment does. What the settings file says stays there."""
    pairs = (assignment.partition("=") for assignment in assignments)
    given = {ENV_PREFIX + key.strip().upper().replace(".", "__"): value.strip() for key, _, value in pairs}
    given[f"{ENV_PREFIX}STATE_DIR"] = str(settings.state_dir.absolute())
    if watched:
        given[f"{ENV_PREFIX}LIBRARY__FOLDERS"] = json.dumps(watched)
    if config_file is not None:
        given[f"{ENV_PREFIX}CONFIG"] = str(expand_home(Path(config_file)).absolute())
    return given


class _Services:
    """The processes of Dagster. One that dies is started again; one that cannot live ends the command."""

    def __init__(self, commands: dict[str, list[str]], environment: dict[str, str]) -> None:
        self._commands = commands
        self._environment = environment
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started_s: dict[str, float] = {}
        self._asked: list[int] = []

    def watch(self, settings_file: _SettingsFile, home: Path) -> int:
        """Until a signal asks for the end."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)
        code = 0
        try:
            for name in self._commands:
                self._start(name)
            while not self._asked and code == 0:
                time.sleep(0.2)
                settings_file.tell_if_changed()
                code = max(self._see_to(name) for name in self._commands)
        finally:
            self._end()
            _end_supervisor(home)
            print_note("Stopped, the workers too. Unfinished work continues at the next start.")
        return code

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._asked.append(number)

    def _start(self, name: str) -> None:
        self._started_s[name] = time.monotonic()
        self._running[name] = subprocess.Popen(
            self._commands[name],
            env=self._environment,
            preexec_fn=die_with_parent_hook(os.getpid()),
        )

    def _see_to(self, name: str) -> int:
        """Start a service again that ended; 1 when it gave up as soon as it was started."""
        code = self._running[name].poll()
        if code is None or self._asked:
            return 0
        if code >= 0 and time.monotonic() - self._started_s[name] < TOO_SOON_S:
            print_error(
                f"the {name} exited right after its start",
                "See its last lines above; often the port is in use (--port).",
            )
            return 1
        print_note(f"The {name} died and is restarted.")
        self._start(name)
        return 0

    def _end(self) -> None:
        for service in self._running.values():
            service.terminate()
        deadline = time.monotonic() + GRACE_S
        for service in self._running.values():
            try:
                service.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                service.kill()
                service.wait()


def _end_supervisor(home: Path) -> None:
    """The workers end too; what they were at goes on where it stopped, the next time."""
    from content_pipeline.launchers.local.run_launcher import drain_supervisor, end_supervisor
    from content_pipeline.launchers.local.supervisor_lock import SupervisorLock

    deadline = time.monotonic() + GRACE_S
    drain_supervisor(home)
    while (supervisor := SupervisorLock(home).holder()) is not None and time.monotonic() < deadline:
        time.sleep(1.0)
        drain_supervisor(home)  # asked twice, it does not wait for running jobs to end
    if supervisor is not None and end_supervisor(supervisor):
        print_note(f"The worker {supervisor.pid} did not answer and was killed; its jobs are not lost.")


class _SettingsFile:
    """Tells the UI to load the settings again when their file has changed, so that it shows what is stale."""

    def __init__(self, config_file: str | None, environment: dict[str, str], address: str) -> None:
        named = environment.get(f"{ENV_PREFIX}CONFIG") if config_file is None else config_file
        self._path = expand_home(Path(named if named else CONFIG_FILE_NAME))
        self._address = address
        self._seen = self._mark()

    def tell_if_changed(self) -> None:
        mark = self._mark()
        if mark == self._seen:
            return
        self._seen = mark
        try:
            resolve(str(self._path) if self._path.exists() else None, None, ())
            _reload(self._address)
            print_note(f"{self._path} changed; the UI has reloaded it.")
        except (PipelineError, OSError) as error:
            print_error(f"{self._path} changed, but could not be loaded: {error}")

    def _mark(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size


def _reload(address: str) -> None:
    from urllib.request import Request, urlopen

    query = 'mutation { reloadRepositoryLocation(repositoryLocationName: "content_pipeline") { __typename } }'
    request = Request(f"{address}/graphql", json.dumps({"query": query}).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=10) as answer:
        said = json.load(answer)["data"]["reloadRepositoryLocation"]["__typename"]
    if said != "WorkspaceLocationEntry":
        raise OSError(f"the UI answered {said}")
