"""Dagster's own folder: where its runs and events are kept between commands."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

import dagster as dg

from content_pipeline.artifacts import write_whole
from content_pipeline.settings import Settings


def dagster_home(settings: Settings) -> Path:
    """`DAGSTER_HOME` if the person set it, else a folder of our state, made on first use."""
    named = os.environ.get("DAGSTER_HOME")
    home = Path(named) if named else settings.state_dir.absolute() / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "dagster.yaml").exists():
        write_whole(home / "dagster.yaml", shipped("dagster.yaml").read_bytes())
    return home


def open_instance(settings: Settings) -> dg.DagsterInstance:
    return dg.DagsterInstance.from_config(str(dagster_home(settings)))


def shipped(name: str) -> Path:
    """A file of the project's top level, which an installed package carries inside."""
    inside = Path(str(resources.files("content_pipeline"))) / name
    return inside if inside.exists() else inside.parent.parent / name
