"""Folders and files that only their owner may read, whatever the umask: state holds paths, settings and logs.

What is published for people keeps their umask, and goes another way.
"""

from __future__ import annotations

import os
from pathlib import Path

STATE_FOLDER = ".content-ai"
PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS = 0o077

# What we put into a state folder; one with other things in it may be somebody's project.
_OURS = ("artifacts", "dagster", "logs", "reports")
_DATABASE = "queue.db"  # and what SQLite and we put beside it, such as `queue.db-wal`


def state_folder(folder: Path) -> Path:
    """The state folder, made if need be. One of an earlier version, or made by hand for us, is closed to others."""
    private_folder(folder)
    if _holds_only_ours(folder):
        close_to_others(folder, PRIVATE_FOLDER)
    return folder


def private_folder(folder: Path) -> Path:
    """The folder, made if need be, with those above it. One that is there stays as it is."""
    if not folder.is_dir():
        if folder.parent != folder:
            private_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return folder


def private_file(path: Path) -> Path:
    """The file, made if need be: whoever writes it next finds it closed to others."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))
    return path


def close_to_others(path: Path, mode: int = PRIVATE_FILE) -> None:
    """Only what is ours can be closed, and need be."""
    status = path.stat()
    if status.st_mode & OTHERS and status.st_uid == os.geteuid():
        path.chmod(mode)


def _holds_only_ours(folder: Path) -> bool:
    return folder.name == STATE_FOLDER or all(
        entry.name in _OURS or entry.name.startswith(_DATABASE) for entry in folder.iterdir()
    )
