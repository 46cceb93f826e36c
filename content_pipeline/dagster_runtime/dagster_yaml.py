"""Dagster's home and the `dagster.yaml` in it: copied there on first use, kept up with the modules that it names."""

from __future__ import annotations

import hashlib
import os
import re
from importlib import resources
from pathlib import Path

from content_pipeline.errors import BadSettings, from_own_folder, printable
from content_pipeline.settings import Settings
from content_pipeline.settings.value_types import expand_home
from content_pipeline.system.atomic_write import write_atomically
from content_pipeline.system.private_files import private_folder, state_folder

NAME = "dagster.yaml"

# Module names that a file of an earlier version may hold, and where the modules are now.
MOVED_MODULES = {
    b"content_pipeline.launcher.storage": b"content_pipeline.dagster_runtime.storage",
    b"content_pipeline.launcher.run_launcher": b"content_pipeline.launchers.local.run_launcher",
}

# SHA-256 of the files of earlier versions that keep their records as this one does.
# When `dagster.yaml` changes, add the digest of the version before.
EARLIER_VERSIONS = frozenset(
    {
        "79ed49f652f58e140df7b3bae83fd3b111054a14be875325dc4fb50f3d7e93c0",
        "ab0e8e349c153bdb7da4b9dc675f46647e5df525d37ef2991a0e20331596068b",
        "c61ecd9e2182847f24e417f67b317d278cdf84b37ad02a65fa26c9733b9bdebc",
    }
)

_MOVED = re.compile(rb"(?<![\w.])(?:" + b"|".join(map(re.escape, MOVED_MODULES)) + rb")(?![\w.])")


def home_path(settings: Settings) -> Path:
    """Dagster's home: `DAGSTER_HOME` if the person set it, else a folder of our state."""
    named = os.environ.get("DAGSTER_HOME")
    return expand_home(Path(named)) if named else settings.state_dir.absolute() / "dagster"


def provide_home(settings: Settings) -> Path:
    """Dagster's home, made on first use."""
    home = home_path(settings)
    if any(mark in str(home) for mark in "?%#"):
        raise BadSettings(f"`state_dir`: Dagster cannot keep its records in {printable(home)}; avoid ?, % and #")
    try:
        state_folder(settings.state_dir.absolute())
        private_folder(home)
        provide_dagster_yaml(home)
    except OSError as error:
        raise from_own_folder(error, home) from error
    return home


def has_stock_records(home: Path) -> bool:
    """Whether stock Dagster keeps records here: a database for each run, in a folder that ours does not have."""
    return (home / "history" / "runs").is_dir()


def has_records(home: Path) -> bool:
    """Whether Dagster was ever started with this home, by us or without us."""
    return (home / NAME).exists() or has_stock_records(home)


def changed_ns(home: Path) -> int:
    """When the file was last changed; 0 where Dagster goes by its own defaults."""
    try:
        return (home / NAME).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def provide_dagster_yaml(home: Path) -> None:
    """Make sure that the home has a file that this version can load.

    A file that nobody edited becomes the current one. In an edited file only module names that have moved are
    replaced, and the file as it was is kept beside it. Two processes that do this at once write the same.
    """
    path = home / NAME
    if not path.exists() and has_stock_records(home):
        return  # Dagster was started here with its own defaults, which keep their records in another way
    if not path.exists():
        write_atomically(path, shipped(NAME).read_bytes())
        return
    path = path.resolve()  # a link stays one
    current = path.read_bytes()
    digest = hashlib.sha256(current).hexdigest()
    if digest in EARLIER_VERSIONS:
        write_atomically(path, shipped(NAME).read_bytes())
        return
    updated = _MOVED.sub(lambda match: MOVED_MODULES[match[0]], current)
    if updated != current:
        write_atomically(path.with_name(f"{NAME}.{digest[:8]}.bak"), current)
        write_atomically(path, updated)


def shipped(name: str) -> Path:
    """A file of the project's top level, which an installed package carries inside."""
    inside = Path(str(resources.files("content_pipeline"))) / name
    return inside if inside.exists() else inside.parent.parent / name
