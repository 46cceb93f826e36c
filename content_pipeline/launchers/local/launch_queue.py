"""The runs that were launched and have not ended, as one small file each, in a folder beside Dagster's records.

A launch is a file that appears whole, and outlives whoever wrote it and whoever reads it. The supervisor, one
per folder, holds a lock for as long as it lives: whoever can take that lock knows that there is none.

No password is in these files: the supervisor has the manifest's from its own environment. A launch says which database
it belongs to, so that a supervisor of another one does not work on it. The password is not part of that: a launch that
was made before the password changed is carried by the supervisor that knows the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from content_pipeline.execution.launch import Launch
from content_pipeline.execution.worker_identity import is_in_this_place
from content_pipeline.system.atomic_write import write_atomically
from content_pipeline.system.file_locks import try_lock
from content_pipeline.system.private_files import private_file, private_folder

FOLDER = "launches"
# What Dagster calls a run. Other files in the folder are not ours.
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HUNG_S = 30.0  # at least: it is busy loading when it starts
LAST_CHANCE_S = 3.0


class LaunchQueue:
    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    def add(self, launch: Launch, lasting: bool = True) -> None:
        """A run that is launched twice is one launch; the later word counts."""
        write_atomically(self._entry(launch.run_id), json.dumps(launch.as_json()).encode(), lasting)

    def note_child(self, launch: Launch, worker: str, pid: int, log: Path) -> Launch:
        carried = replace(launch, worker=worker, pid=pid, log=str(log))
        self.add(carried, lasting=False)  # after a power cut nobody carries it
        return carried

    def get(self, run_id: str) -> Launch | None:
        try:
            return Launch.from_json(json.loads(self._entry(run_id).read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):  # no more than a hint: Dagster knows the run, and it is adopted
            self._entry(run_id).unlink(missing_ok=True)
            return None

    def run_ids(self) -> frozenset[str]:
        """Names only: cheap enough to be asked several times a second."""
        return self._names(".json")

    def has_work_for(self, database: str) -> bool:
        """Whether a launch waits that a supervisor of this database may take."""
        launches = (self.get(run_id) for run_id in self.run_ids())
        return any(launch is not None and launch.database in (None, database) for launch in launches)

    def remove(self, run_id: str) -> None:
        self._entry(run_id).unlink(missing_ok=True)
        self._wish(run_id).unlink(missing_ok=True)

    # --- stopping one

    def ask_to_stop(self, run_id: str) -> None:
        private_folder(self._folder)
        private_file(self._wish(run_id))

    def asked_to_stop(self) -> frozenset[str]:
        return self._names(".stop")

    # --- the supervisor's lock

    @contextlib.contextmanager
    def supervising(self, card: dict[str, Any], patience_s: float) -> Iterator[bool]:
        """Hold the lock while the block runs; False when somebody else keeps it. `card` says who we are.

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
            _rewrite(file, card)
            yield True

    def beat(self) -> None:
        """The supervisor says that it gets on; a lock alone does not tell one that hangs.

        Written as the time of a file, which takes no room on a full disk, and by the clock that nobody sets and
        that stands still while the machine sleeps.
        """
        private_file(self._beat_file())
        os.utime(self._beat_file(), ns=(time.monotonic_ns(), time.monotonic_ns()))
        os.utime(self._lock_file())  # a daemon of version 0.1.0 that still runs goes by this one

    def is_hung(self, card: dict[str, Any]) -> bool:
        """Whether the supervisor of this card has not got on for longer than its jobs' leases last.

        A machine that was paused wakes up with all of its processes late: each gets a last chance to say a word.
        """
        last_chance_s = time.monotonic() + LAST_CHANCE_S
        while self._is_silent(card):
            if time.monotonic() > last_chance_s:
                return True
            time.sleep(0.1)
        return False

    def _is_silent(self, card: dict[str, Any]) -> bool:
        """False where it cannot be known: the clock of another machine or boot says nothing here."""
        if card.get("worker") is None or not is_in_this_place(card["worker"]):
            return False
        try:
            beat_s = self._beat_file().stat().st_mtime
        except FileNotFoundError:
            return False
        return time.monotonic() - beat_s > max(float(card["lease_s"]), HUNG_S)

    def supervisor(self) -> dict[str, Any] | None:
        """The card of the supervisor that lives, if one does."""
        try:
            with self._lock_file().open("r") as file:
                if try_lock(file, shared=True):
                    return None
                text = file.read()
        except FileNotFoundError:
            return None
        return dict(json.loads(text)) if text else {"pid": None, "build": None, "lease_s": 0.0}

    def latest_supervisor(self) -> dict[str, Any] | None:
        """The card of whoever last had the lock, alive or not."""
        try:
            return dict(json.loads(self._lock_file().read_text()))
        except (FileNotFoundError, ValueError):
            return None

    def _lock_file(self) -> Path:
        return self._folder / "supervisor.lock"

    def _beat_file(self) -> Path:
        return self._folder / "supervisor.beat"

    def _entry(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.json"

    def _wish(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.stop"

    def _names(self, ending: str) -> frozenset[str]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - names are all that is needed, often
        except FileNotFoundError:
            return frozenset()
        run_ids = (name.removesuffix(ending) for name in names if name.endswith(ending))
        return frozenset(run_id for run_id in run_ids if _RUN_ID.fullmatch(run_id))


def _rewrite(file: IO[str], card: dict[str, Any]) -> None:
    file.truncate(0)
    file.seek(0)
    json.dump(card, file)
    file.flush()
