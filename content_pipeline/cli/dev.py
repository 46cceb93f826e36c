"""`content-ai dev`: Dagster's UI and daemon, on a state folder that lasts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_error, print_result
from content_pipeline.settings import ENV_PREFIX, Settings

GRACE_S = 15.0


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address the UI listens on.")
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Port of the UI.")
@settings_options
def dev(host: str, port: int, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> int:
    """Start the Dagster UI and its daemon. Ctrl-C ends both; what they know stays."""
    settings = resolve(config_file, state_dir, assignments).settings
    from content_pipeline.launcher.home import dagster_home, shipped

    environment = {
        **os.environ,
        **_environment(settings, config_file, assignments),
        "DAGSTER_HOME": str(dagster_home(settings)),
    }
    workspace = ["-w", str(shipped("workspace.yaml"))]
    services = {
        "UI": [sys.executable, "-m", "dagster_webserver", *workspace, "--host", host, "--port", str(port)],
        "daemon": [sys.executable, "-m", "dagster._daemon", "run", *workspace],
    }
    print_result(f"State:  {settings.state_dir.absolute()}")
    print_result(f"UI:     http://{host}:{port}")
    sys.stdout.flush()
    return _watch({name: subprocess.Popen(command, env=environment) for name, command in services.items()})


def _environment(settings: Settings, config_file: str | None, assignments: tuple[str, ...]) -> dict[str, str]:
    """Flags reach the code location the way the environment does."""
    pairs = (assignment.partition("=") for assignment in assignments)
    given = {ENV_PREFIX + key.strip().upper().replace(".", "__"): value.strip() for key, _, value in pairs}
    given[f"{ENV_PREFIX}STATE_DIR"] = str(settings.state_dir.absolute())
    given[f"{ENV_PREFIX}OUTPUT_DIR"] = str(settings.output_dir.absolute())
    if config_file is not None:
        given[f"{ENV_PREFIX}CONFIG"] = str(Path(config_file).absolute())
    return given


def _watch(services: dict[str, subprocess.Popen[bytes]]) -> int:
    """Until a signal asks for the end, or one of the two ends and takes the other with it."""
    asked: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        asked.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, note)
    while not asked and all(service.poll() is None for service in services.values()):
        time.sleep(0.2)
    ended = [name for name, service in services.items() if service.poll() is not None]
    _end(services)
    if asked:
        return 0
    print_error(f"the {ended[0]} ended by itself", "Its last lines above say why; a port in use is the usual reason.")
    return 1


def _end(services: dict[str, subprocess.Popen[bytes]]) -> None:
    for service in services.values():
        service.terminate()
    deadline = time.monotonic() + GRACE_S
    for service in services.values():
        try:
            service.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()
