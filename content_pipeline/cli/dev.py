"""`content-ai dev`: Dagster's UI and daemon, on a state folder that lasts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_result
from content_pipeline.settings import ENV_PREFIX


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address the UI listens on.")
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Port of the UI.")
@settings_options
def dev(host: str, port: int, config_file: str | None, state_dir: str | None, assignments: tuple[str, ...]) -> None:
    """Start the Dagster UI and its daemon. Ctrl-C ends both; what they know stays."""
    resolved = resolve(config_file, state_dir, assignments)
    from content_pipeline.launcher.home import dagster_home, shipped

    home = dagster_home(resolved.settings)
    print_result(f"State:  {resolved.settings.state_dir.absolute()}")
    print_result(f"UI:     http://{host}:{port}")
    sys.stdout.flush()
    environment = {
        **os.environ,
        **_flags(assignments),
        "DAGSTER_HOME": str(home),
        f"{ENV_PREFIX}STATE_DIR": str(resolved.settings.state_dir.absolute()),
        f"{ENV_PREFIX}OUTPUT_DIR": str(resolved.settings.output_dir.absolute()),
    }
    if config_file is not None:
        environment[f"{ENV_PREFIX}CONFIG"] = str(Path(config_file).absolute())
    command = [sys.executable, "-m", "dagster", "dev", "-w", str(shipped("workspace.yaml"))]
    os.execve(sys.executable, [*command, "--host", host, "--port", str(port)], environment)


def _flags(assignments: tuple[str, ...]) -> dict[str, str]:
    """`--set` values reach the code location the way the environment does."""
    pairs = (assignment.partition("=") for assignment in assignments)
    return {ENV_PREFIX + key.strip().upper().replace(".", "__"): value.strip() for key, _, value in pairs}
