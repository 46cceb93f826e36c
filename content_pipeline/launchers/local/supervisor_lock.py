"""The lock that the supervisor holds for as long as it lives: one per Dagster home, and it says who has it.

Whoever can take the lock knows that there is no supervisor.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO

from content_pipeline.execution.worker_identity import is_in_this_place
from content_pipeline.launchers.local.folder_launch_queue import FOLDER
from content_pipeline.system.file_locks import try_lock
from content_pipeline.system.private_files import private_file, private_folder

HUNG_S = 30.0  # at least: it is busy loading when it starts
LAST_CHANCE_S = 3.0


@dataclass(frozen=True)
class SupervisorInfo:
    """Who a supervisor is, as written in the lock file; all None in the moment before it has written that.

    The names of the fields are the keys in the file, which supervisors and daemons of other versions read and write.
    """

    worker: str | None = None
    pid: int | None = None
    build: str | None = None  # which code it runs
    manifest: str | None = None  # the identity of the one that it serves
    lease_s: float = 0.0

    @classmethod
    def from_json(cls, text: str) -> SupervisorInfo:
        """Fields that only another version knows are left out."""
        value = json.loads(text)
        return cls(**{item.name: value[item.name] for item in fields(cls) if item.name in value})

    def as_json(self) -> str:
        return json.dumps(asdict(self))


class SupervisorLock:
    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    @contextlib.contextmanager
    def hold(self, info: SupervisorInfo, patience_s: float) -> Iterator[bool]:
        """Hold the lock while the block runs; False when somebody else keeps it. `info` says who we are.

        Children inherit the lock: it is free again when the supervisor and all that it started are gone.
        """
        private_folder(self._folder)
        with private_file(self._lock_file()).open("a+") as file:
            deadline = time.monotonic() + patience_s
            while not try_lock(file):
                if time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(0.05)
            self.beat()
            _rewrite(file, info.as_json())
            yield True

    def beat(self) -> None:
        """The supervisor says that it gets on; a lock alone does not tell one that hangs.

        Written as the time of a file, which takes no room on a full disk, and by the clock that nobody sets and
        that stands still while the machine sleeps.
        """
        private_file(self._beat_file())
        os.utime(self._beat_file(), ns=(time.monotonic_ns(), time.monotonic_ns()))
        os.utime(self._lock_file())  # a daemon of version 0.1.0 that still runs goes by this one

    def is_hung(self, info: SupervisorInfo) -> bool:
        """Whether this supervisor has not got on for longer than its jobs' leases last.

        A machine that was paused wakes up with all of its processes late: each gets a last chance to say a word.
        """
        last_chance_s = time.monotonic() + LAST_CHANCE_S
        while self._is_silent(info):
            if time.monotonic() > last_chance_s:
                return True
            time.sleep(0.1)
        return False

    def _is_silent(self, info: SupervisorInfo) -> bool:
        """False where it cannot be known: the clock of another machine or boot says nothing here."""
        if info.worker is None or not is_in_this_place(info.worker):
            return False
        try:
            beat_s = self._beat_file().stat().st_mtime
        except FileNotFoundError:
            return False
        return time.monotonic() - beat_s > max(info.lease_s, HUNG_S)

    def holder(self) -> SupervisorInfo | None:
        """The supervisor that lives, if one does."""
        try:
            with self._lock_file().open("r") as file:
                if try_lock(file, shared=True):
                    return None
                text = file.read()
        except FileNotFoundError:
            return None
        return SupervisorInfo.from_json(text) if text else SupervisorInfo()

    def latest_holder(self) -> SupervisorInfo | None:
        """Whoever last had the lock, alive or not."""
        try:
            return SupervisorInfo.from_json(self._lock_file().read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _lock_file(self) -> Path:
        return self._folder / "supervisor.lock"

    def _beat_file(self) -> Path:
        return self._folder / "supervisor.beat"


def _rewrite(file: IO[str], text: str) -> None:
    file.truncate(0)
    file.seek(0)
    file.write(text)
    file.flush()
