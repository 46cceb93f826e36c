"""Whether this host sees the same files below a root as every other: by the marker there, which the manifest knows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa

from content_pipeline.errors import printable
from content_pipeline.manifest.schema import storage_roots
from content_pipeline.manifest.storage_roots import StorageRoots, attach, name_and_rest, roots_of
from content_pipeline.system.root_marker import NAME as MARKER
from content_pipeline.system.root_marker import NotOurs, read_marker


class RootState(StrEnum):
    SEEN = "seen"  # the marker is the one that the manifest knows: work below it can be done here
    UNMAPPED = "unmapped"  # the settings of this host do not say where it is: others do its work
    UNKNOWN = "unknown"  # in the settings, but never added to the manifest
    MISSING = "missing"  # no marker there: not mounted, or another folder
    ANOTHER = "another"  # another marker: other storage is mounted there
    LINKED = "linked"  # the settings name a symbolic link, and paths are stored without links


@dataclass(frozen=True)
class RootView:
    """A root as this host sees it; `folder` is None when it is not mapped."""

    name: str
    folder: Path | None
    state: RootState

    @property
    def problem(self) -> str | None:
        """Why work below it cannot be done here."""
        place = f"the root `{self.name}`{'' if self.folder is None else f' ({printable(self.folder)})'}"
        match self.state:
            case RootState.SEEN:
                return None
            case RootState.UNMAPPED:
                return f"{place} is not mapped on this host: jobs below it are left to hosts that map it"
            case RootState.UNKNOWN:
                return f"{place} is not known to the manifest yet: run `content-ai roots add {self.name}` once"
            case RootState.MISSING:
                return f"{place} has no {MARKER}: is the storage mounted there?"
            case RootState.ANOTHER:
                return f"{place} has the marker of other storage: something else is mounted there"
            case RootState.LINKED:
                real = os.path.realpath(str(self.folder))
                return f"{place} leads through a symbolic link: write {printable(real)} in the settings"


def known_roots(connection: sa.Connection) -> dict[str, str]:
    """The marker of every root that was added, by name."""
    query = sa.select(storage_roots.c.name, storage_roots.c.marker)
    return {row.name: row.marker for row in connection.execute(query)}


def attach_known(engine: sa.Engine, mapped: Mapping[str, Path]) -> None:
    """Translate paths below the roots that were added and are mapped here. Before it is added, a root means nothing."""
    if not mapped:
        return
    with engine.connect() as connection:
        known = known_roots(connection)
    attach(engine.dialect, StorageRoots.of({name: folder for name, folder in mapped.items() if name in known}))


def seen_roots(known: Mapping[str, str], roots: StorageRoots) -> frozenset[str]:
    views = (view_of(name, Path(folder), known.get(name)) for name, folder in roots.folders.items())
    return frozenset(view.name for view in views if view.state is RootState.SEEN)


def can_look_at(connection: sa.Connection, path: str) -> bool:
    """Not below a root that this host does not see: what is not found there may well exist."""
    roots = roots_of(connection.dialect)
    name, _ = name_and_rest(roots.to_stored(path))
    return name is None or name in seen_roots(known_roots(connection), roots)


def view_of(name: str, folder: Path | None, marker: str | None) -> RootView:
    """`marker` is the one that the manifest knows."""
    if folder is None:
        return RootView(name, None, RootState.UNMAPPED)
    if os.path.realpath(folder) != str(folder):
        return RootView(name, folder, RootState.LINKED)
    if marker is None:
        return RootView(name, folder, RootState.UNKNOWN)
    try:
        found = read_marker(folder)
    except (NotOurs, OSError):
        return RootView(name, folder, RootState.MISSING)
    if found is None:
        return RootView(name, folder, RootState.MISSING)
    return RootView(name, folder, RootState.SEEN if found == marker else RootState.ANOTHER)
