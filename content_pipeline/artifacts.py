"""Content-addressed artifacts: what a stage made, found again by its key.

An artifact is a folder that appears whole or not at all: it is drafted aside, its files are fsynced
and hashed, then it is renamed into place. Its `digest` covers what the files hold, so that a stage
that was run anew but made the same thing leaves everything after it untouched.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from content_pipeline.errors import from_own_folder
from content_pipeline.system.atomic_write import fsync
from content_pipeline.system.file_locks import file_lock, remove_left_locks
from content_pipeline.system.hashing import digest_of, hash_file
from content_pipeline.system.private_files import close_to_others, private_file, private_folder

INDEX_NAME = "artifact.json"
LOCK_NAME = ".lock"

# A state folder may be somebody's project, where `artifacts` has things of its own: only what we named is removed.
DRAFT_PREFIX = "content-ai-"
_KEY = re.compile(r"[0-9a-f]{64}")
_LOCK = re.compile(r"[a-z_]+-[0-9a-f]{32}")


@dataclass(frozen=True)
class Artifact:
    """`facts` are small JSON values beside the files: counts, reasons, what a later stage asks first.

    `force_id` names the forced job that it was made for, if it was made for one.
    """

    folder: Path
    key: str
    digest: str
    facts: Mapping[str, Any]
    hashes: Mapping[str, str]
    force_id: str | None = None

    def path(self, name: str) -> Path:
        return self.folder / name

    def read_json(self, name: str) -> Any:
        return json.loads(self.path(name).read_text(encoding="utf-8"))


class Draft:
    """An artifact in the making; nobody sees it until it is done."""

    def __init__(self, folder: Path, force_id: str | None = None) -> None:
        self.folder = folder
        self.force_id = force_id
        self.facts: dict[str, Any] = {}

    def path(self, name: str) -> Path:
        return self.folder / name

    def write_bytes(self, name: str, data: bytes) -> None:
        self.path(name).write_bytes(data)

    def write_json(self, name: str, value: Any) -> None:
        self.write_bytes(name, to_json(value).encode())


@dataclass(frozen=True)
class Maker:
    """Who makes artifacts here, by the name that others who want the same find in its lock.

    `is_current` says of such a name whether whoever has it may still be waited for: a worker that was stopped, and
    has lost its job, keeps its lock.
    """

    name: str = ""
    is_current: Callable[[str], bool] = lambda _name: True


NOBODY = Maker()


class ArtifactStore:
    def __init__(self, root: Path, patience_s: float = 90.0, maker: Maker = NOBODY) -> None:
        self.root = root
        self.patience_s = patience_s
        self._maker = maker

    def find(self, stage: str, key: str) -> Artifact | None:
        """The artifact, if every file is there and holds what was recorded; a damaged one is not found."""
        folder = self._folder(stage, key)
        try:
            index = json.loads((folder / INDEX_NAME).read_text(encoding="utf-8"))
            artifact = Artifact(
                folder, index["key"], index["digest"], index["facts"], index["hashes"], index.get("force_id")
            )
            intact = artifact.key == key and all(
                hash_file(artifact.path(name)) == recorded for name, recorded in artifact.hashes.items()
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if intact:
            with suppress(OSError):  # a read-only cache still serves
                os.utime(folder / INDEX_NAME)  # when it was last used
        return artifact if intact else None

    @contextmanager
    def only_one(self, stage: str, key: str) -> Iterator[None]:
        """One process at a time makes an artifact; the others wait for it, but not for one that stands still.

        The lock only saves work: two who make the same thing at once make it twice, and nothing breaks.
        """
        with ExitStack() as held:
            try:
                private_folder(self._locks)
                path = self._locks / f"{stage}-{key[:32]}"
                held.enter_context(file_lock(path, self.patience_s, self._maker.name, self._maker.is_current))
            except OSError as error:
                raise from_own_folder(error, self._locks) from error
            yield

    @contextmanager
    def draft(self, stage: str, key: str, force_id: str | None = None) -> Iterator[Draft]:
        """Make an artifact: fill the draft, and it is in place when the block ends without an error."""
        folder = self._folder(stage, key)
        drafts = self.root / ".drafts"
        try:
            private_folder(drafts)
            private_folder(folder.parent)
            with _locked_folder(drafts) as draft_folder:
                draft = Draft(draft_folder, force_id)
                yield draft
                _seal(draft, key)
                _put_in_place(draft_folder, folder)
        except OSError as error:
            raise from_own_folder(error, Path(error.filename or folder)) from error

    def collect(self, in_use: Collection[str], used_before: float) -> int:
        """Remove artifacts that nobody points to and nobody has used since a time; returns how many."""
        removed = 0
        drafts = private_folder(self.root / ".drafts")
        for index in sorted(self.root.glob(f"*/*/*/{INDEX_NAME}")):
            folder = index.parent
            is_artifact = _KEY.fullmatch(folder.name) is not None and folder.parent.name == folder.name[:2]
            if is_artifact and folder.name not in in_use and index.stat().st_mtime < used_before:
                aside = _new_folder(drafts)  # where a sweep finds it, should we be killed now
                folder.rename(aside / "old")
                shutil.rmtree(aside, ignore_errors=True)
                removed += 1
        return removed

    def sweep(self, older_than_s: float = 60.0) -> int:
        """Remove the drafts and locks of processes that died; a living owner holds a lock on its own."""
        remove_left_locks(self._locks, _LOCK)
        abandoned = self.abandoned_drafts(older_than_s)
        for folder in abandoned:
            shutil.rmtree(folder, ignore_errors=True)
        return len(abandoned)

    def abandoned_drafts(self, older_than_s: float = 60.0) -> list[Path]:
        drafts = sorted((self.root / ".drafts").glob("*"))
        return [folder for folder in drafts if _is_draft(folder) and _is_abandoned(folder, older_than_s)]

    @property
    def _locks(self) -> Path:
        return self.root / ".locks"

    def _folder(self, stage: str, key: str) -> Path:
        return self.root / stage / key[:2] / key


@contextmanager
def _locked_folder(parent: Path) -> Iterator[Path]:
    folder = _new_folder(parent)
    with private_file(folder / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _new_folder(drafts: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=drafts, prefix=DRAFT_PREFIX))


def _is_draft(folder: Path) -> bool:
    """By its name; one of an earlier version, which had no name of ours, by what is in it."""
    marks = (LOCK_NAME, INDEX_NAME, f"old/{INDEX_NAME}")
    is_named = folder.name.startswith(DRAFT_PREFIX)
    return is_named or (folder.name.startswith("tmp") and any((folder / mark).is_file() for mark in marks))


def _is_abandoned(folder: Path, older_than_s: float) -> bool:
    try:
        with (folder / LOCK_NAME).open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:  # no lock yet: it is being born, or was half removed
        try:
            return _now_s(folder.parent) - folder.stat().st_mtime > older_than_s
        except OSError:
            return False


def _now_s(folder: Path) -> float:
    """By the clock that stamps the files there: on shared storage it is not this host's."""
    with tempfile.TemporaryFile(dir=folder) as stamped:
        return os.fstat(stamped.fileno()).st_mtime


def _seal(draft: Draft, key: str) -> None:
    """Hash and fsync everything, then write the index that makes the folder an artifact."""
    names = sorted(path.name for path in draft.folder.iterdir() if path.name != LOCK_NAME)
    hashes = {name: hash_file(draft.path(name)) for name in names}
    index = {
        "key": key,
        "digest": digest_of(hashes),
        "facts": draft.facts,
        "hashes": hashes,
        "force_id": draft.force_id,
    }
    draft.write_json(INDEX_NAME, index)
    for name in (*names, INDEX_NAME):
        close_to_others(draft.path(name))
        fsync(draft.path(name))
    fsync(draft.folder)


def _put_in_place(draft_folder: Path, folder: Path) -> None:
    """The newest takes the place: equal keys mean equal worth, and the old one may be damaged."""
    (draft_folder / LOCK_NAME).unlink()
    while True:
        try:
            draft_folder.rename(folder)
            break
        except OSError:
            if not folder.exists():
                raise
            aside = _new_folder(draft_folder.parent)
            with suppress(FileNotFoundError):  # another worker moved it first
                folder.rename(aside / "old")
            shutil.rmtree(aside, ignore_errors=True)
    fsync(folder.parent)


def to_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False)
