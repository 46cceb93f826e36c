"""The launch queue as a folder beside Dagster's records: one small file for each run that was launched.

A launch is a file that appears whole, and outlives whoever wrote it and whoever reads it.

No password is in these files: the supervisor has the manifest's from its own environment. A launch says which database
it belongs to, so that a supervisor of another one does not work on it. The password is not part of that: a launch that
was made before the password changed is carried by the supervisor that knows the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from pathlib import Path

from content_pipeline.execution.launch import Launch
from content_pipeline.launchers.launch_queue import LaunchQueue
from content_pipeline.system.atomic_write import write_atomically
from content_pipeline.system.private_files import private_file, private_folder

FOLDER = "launches"
# What Dagster calls a run. Other files in the folder are not ours.
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class FolderLaunchQueue(LaunchQueue):
    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    @property
    def id(self) -> str:
        """Given once, and kept in the folder: it outlives a reboot, and whoever shares the folder shares the queue."""
        path = self._folder / "queue.id"
        with contextlib.suppress(FileNotFoundError):
            return path.read_text()
        private_folder(self._folder)
        draft = self._folder / f"queue.id.{uuid.uuid4().hex}"
        private_file(draft).write_text(uuid.uuid4().hex)
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(draft, path)
        draft.unlink()
        return path.read_text()

    def add(self, launch: Launch, durable: bool = True) -> None:
        """A run that is launched twice is one launch; the later word counts."""
        write_atomically(self._entry(launch.run_id), json.dumps(launch.as_json()).encode(), durable)

    def get(self, run_id: str) -> Launch | None:
        try:
            return Launch.from_json(json.loads(self._entry(run_id).read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):  # no more than a hint: Dagster knows the run, and it is adopted
            self._entry(run_id).unlink(missing_ok=True)
            return None

    def run_ids(self) -> frozenset[str]:
        return self._names(".json")

    def remove(self, run_id: str) -> None:
        self._entry(run_id).unlink(missing_ok=True)
        self._stop_request(run_id).unlink(missing_ok=True)

    def ask_to_stop(self, run_id: str) -> None:
        private_folder(self._folder)
        private_file(self._stop_request(run_id))

    def asked_to_stop(self) -> frozenset[str]:
        return self._names(".stop")

    def _entry(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.json"

    def _stop_request(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.stop"

    def _names(self, ending: str) -> frozenset[str]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - names are all that is needed, often
        except FileNotFoundError:
            return frozenset()
        run_ids = (name.removesuffix(ending) for name in names if name.endswith(ending))
        return frozenset(run_id for run_id in run_ids if _RUN_ID.fullmatch(run_id))
