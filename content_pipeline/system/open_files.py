"""Which other processes have a file open, as `/proc` tells. Those of other users and other machines are not seen."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

PROC = Path("/proc")


def processes_with_open(paths: Collection[Path]) -> dict[int, str]:
    """Process id -> its command line."""
    wanted = {os.path.realpath(path) for path in paths}
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal() and int(entry.name) != os.getpid())
    return {pid: _command(pid) for pid in pids if wanted & _open_files(pid)}


def _open_files(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        for link in (PROC / str(pid) / "fd").iterdir():
            found.add(str(link.readlink()))
    except OSError:  # it ended in this moment, or is somebody else's
        return found
    return found


def _command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
