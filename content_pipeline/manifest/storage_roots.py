"""Paths below a folder of shared storage that has a name: `root:nas/games/a.mp4`, wherever a host has mounted it.

The mapping belongs to an engine, so that the types of columns translate on the way in and out, and nobody else has to.
What lies outside every root stays an absolute path. What lies below a root that this host does not map stays as it is
stored: no such file exists here, and it is shown by a name that means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "root:"
_ATTRIBUTE = "storage_roots"


@dataclass(frozen=True)
class StorageRoots:
    """`folders`: where each root is on this host, by name."""

    folders: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folders: Mapping[str, Path]) -> StorageRoots:
        return cls({name: str(folder) for name, folder in folders.items()})

    def to_stored(self, path: str) -> str:
        for name, folder in self.folders.items():
            if _is_below(path, folder):
                return f"{MARK}{name}{path[len(folder) :]}"
        return path

    def to_local(self, stored: str) -> str:
        name, rest = name_and_rest(stored)
        return stored if name is None or name not in self.folders else self.folders[name] + rest

    def json_to_stored(self, value: Any) -> Any:
        return _each_text(value, self.to_stored) if self.folders else value

    def json_to_local(self, value: Any) -> Any:
        return _each_text(value, self.to_local) if self.folders else value

    def inside(self, folder: str) -> list[str]:
        """The names of the roots that lie below a folder."""
        return [name for name, its in self.folders.items() if _is_below(its, folder) and its != folder]


NO_ROOTS = StorageRoots()


def name_and_rest(stored: str) -> tuple[str | None, str]:
    """The name of the root that a stored path lies below, and what follows it; None for an absolute path."""
    if not stored.startswith(MARK):
        return None, stored
    name, slash, rest = stored[len(MARK) :].partition("/")
    return name, slash + rest


def attach(dialect: Any, roots: StorageRoots) -> None:
    """From now on the columns of this engine translate. Every engine has a dialect of its own."""
    setattr(dialect, _ATTRIBUTE, roots)


def roots_of(dialect: Any) -> StorageRoots:
    found: StorageRoots = getattr(dialect, _ATTRIBUTE, NO_ROOTS)
    return found


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Every text in a JSON value, keys included: a path is a text of its own there, never part of one."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _each_text(inner, change) for key, inner in value.items()}
    return [_each_text(inner, change) for inner in value] if isinstance(value, list) else value
