"""Hosts that have the same storage at different places: bind mounts in mount namespaces, where root allows it.

Else the folder is moved to the place where a host expects it for as long as its command runs; one command at a time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_MOUNT = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


@dataclass(frozen=True)
class MountingHost:
    """`place`: where this host has the storage; None if it has not mounted it. `folder`: what else is its own."""

    folder: Path
    storage: Path
    place: Path | None

    def content_ai(self, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "content_pipeline.cli", *map(str, arguments)]
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.place is None:
            return self._run(command, env)
        self.place.mkdir(parents=True, exist_ok=True)
        if may_mount():
            mounted = ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", str(self.storage), str(self.place)]
            return self._run([*mounted, *command], env)
        self.place.rmdir()
        self.storage.rename(self.place)
        try:
            return self._run(command, env)
        finally:
            self.place.rename(self.storage)

    def _run(self, command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **env}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )


def may_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    here = str(Path(__file__).parent)
    tried = subprocess.run(["unshare", "--mount", "mount", "--bind", here, here], capture_output=True)
    return tried.returncode == 0
