"""Find the recordings of a folder, and which of them are whole. Looks at names and `stat`, reads nothing."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from content_pipeline.errors import MissingFile, PipelineError, UnsafePath, from_os_error, printable
from content_pipeline.library.keys import canonical_path
from content_pipeline.media.source import Signature
from content_pipeline.settings import LibrarySettings
from content_pipeline.system.filesystem import is_open_for_writing

# Endings of videos, whether the settings name them or not: a folder full of these is not "no recordings".
VIDEO_ENDINGS = frozenset(
    f".{name}"
    for name in (
        *("3gp", "asf", "avi", "divx", "f4v", "flv", "m2ts", "m4v", "mkv", "mov", "mp4"),
        *("mpeg", "mpg", "mts", "mxf", "ogv", "ts", "vob", "webm", "wmv"),
    )
)


# Sub-folders that are looked into only to say that they were not searched.
MOST_LOOKS = 1000
SETTLE_LOOKS = 3


class Ownership(Enum):
    """Whose a file or folder in a library is."""

    THEIRS = "theirs"  # a person's: may be a recording
    OURS = "ours"  # our state folder, or what we published: passed over without a word
    CHANGED = "changed"  # it has the name of a montage and holds something else: passed over, and named


class Found(NamedTuple):
    """A recording, as `stat` sees it."""

    path: Path
    signature: Signature


@dataclass(frozen=True)
class Refused:
    path: Path
    error: PipelineError


@dataclass(frozen=True)
class Scan:
    """`passed_over` counts what ends like a recording but is none, by kind; `other_endings` the other files.

    `changed_outputs`: an edited montage, or a recording that took a montage's name. Which of them, only a person knows.
    """

    root: Path
    recordings: tuple[Found, ...]
    refused: tuple[Refused, ...]
    passed_over: Mapping[str, int]
    other_endings: Mapping[str, int] = field(default_factory=dict)
    changed_outputs: tuple[Path, ...] = ()

    @property
    def likely_recordings(self) -> dict[str, int]:
        """Of the files with other endings, those that most programs take for videos."""
        return {ending: count for ending, count in sorted(self.other_endings.items()) if ending in VIDEO_ENDINGS}


def scan(
    target: Path, settings: LibrarySettings, ownership_of: Callable[[Path], Ownership] = lambda _path: Ownership.THEIRS
) -> Scan:
    """Scan a folder; a single file is a library of one, whatever its extension and whoever made it."""
    target = canonical_path(target)
    if not os.path.lexists(target):
        raise MissingFile(f"{printable(target)} does not exist")
    if not target.is_dir():
        return _sort_out(target.parent, iter([target]))
    endings = tuple(f".{extension}" for extension in settings.extensions)
    others: Counter[str] = Counter()
    walk = _Walk(settings.recursive, ownership_of)
    found = _sort_out(target, _with_ending(walk.entries(target), endings, others))
    return replace(
        found,
        refused=(*found.refused, *walk.refused),
        other_endings=dict(others),
        changed_outputs=tuple(walk.changed_outputs),
    )


def _with_ending(entries: Iterator[os.DirEntry[str]], endings: tuple[str, ...], others: Counter[str]) -> Iterator[Path]:
    """What ends like a recording; visible files that do not are counted by their ending."""
    for entry in entries:
        if entry.name.lower().endswith(endings):
            yield Path(entry.path)
        elif not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
            others[Path(entry.name).suffix.lower()] += 1


def count_unsearched_folders(
    root: Path, settings: LibrarySettings, ownership_of: Callable[[Path], Ownership] = lambda _path: Ownership.THEIRS
) -> int:
    """How many sub-folders hold what ends like a recording, and are not entered. Looks into a limited number."""
    if settings.recursive or not root.is_dir():
        return 0
    endings = tuple(f".{extension}" for extension in settings.extensions)
    found, looks = 0, MOST_LOOKS
    for folder in _folders_in(root):
        waiting = [folder]
        while waiting and looks:
            looks -= 1
            inner = waiting.pop()
            if ownership_of(inner) is not Ownership.THEIRS:
                continue
            if _holds_recordings(inner, endings, ownership_of):
                found += 1
                break
            waiting += _folders_in(inner)
    return found


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                Path(entry.path)
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except OSError:
        return []


def _holds_recordings(folder: Path, endings: tuple[str, ...], ownership_of: Callable[[Path], Ownership]) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.name.lower().endswith(endings)
                and entry.is_file(follow_symlinks=False)
                and not entry.name.startswith(".")
                and ownership_of(Path(entry.path)) is Ownership.THEIRS
                for entry in entries
            )
    except OSError:
        return False


def known_and_changed(scan: Scan, signatures: Mapping[str, str]) -> tuple[list[Found], list[Found]]:
    """The recordings that are as they were when they got these signatures, by path; and the others."""
    same = [found for found in scan.recordings if found.signature.matches(signatures.get(str(found.path)))]
    return same, sorted(set(scan.recordings) - set(same)) if len(same) < len(scan.recordings) else []


def wait_until_settled(moving: Sequence[Found], quiet_s: float) -> tuple[list[Found], list[Found]]:
    """What changed just now is looked at again; what still changes is left alone."""
    settled: list[Found] = []
    for look in range(SETTLE_LOOKS):
        if look and moving:
            time.sleep(quiet_s)
            moving = [again for found in moving if (again := _look_again(found)) is not None]
        now_ns = time.time_ns()
        whole = {found for found in moving if is_settled(found.path, found.signature.mtime_ns, now_ns, quiet_s)}
        settled += whole
        moving = [found for found in moving if found not in whole]
    return settled, list(moving)


def is_settled(path: Path, mtime_ns: int, now_ns: int, quiet_s: float) -> bool:
    """Nobody writes it, and it has not changed for a while. A time in the future says nothing, and passes."""
    age_s = (now_ns - mtime_ns) / 1e9
    return not 0 <= age_s < quiet_s and not is_open_for_writing(path)


def _look_again(found: Found) -> Found | None:
    """The same file as `stat` sees it now; None when it is gone."""
    try:
        return Found(found.path, Signature.of(found.path.stat()))
    except OSError:
        return None


@dataclass
class _Walk:
    """Through a folder, and gathers what it does not hand out."""

    recursive: bool
    ownership_of: Callable[[Path], Ownership]
    refused: list[Refused] = field(default_factory=list)
    changed_outputs: list[Path] = field(default_factory=list)

    def entries(self, folder: Path, below: bool = False) -> Iterator[os.DirEntry[str]]:
        """Names in order; links to folders are not followed, hidden folders not entered."""
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if not below:
                raise from_os_error(error, folder) from error
            self.refused.append(Refused(folder, from_os_error(error, folder)))
            return
        for entry in found:
            path = Path(entry.path)
            ownership = self.ownership_of(path)
            if ownership is Ownership.CHANGED:
                self.changed_outputs.append(path)
            if ownership is not Ownership.THEIRS:
                continue
            yield entry
            if self.recursive and entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                yield from self.entries(path, below=True)


def _sort_out(root: Path, paths: Iterator[Path]) -> Scan:
    recordings: list[Found] = []
    refused: list[Refused] = []
    passed_over: Counter[str] = Counter()
    real_root = os.path.realpath(root)
    for path in paths:
        kind = _kind(path, root, real_root)
        if isinstance(kind, PipelineError):
            refused.append(Refused(path, kind))
        elif isinstance(kind, Found):
            recordings.append(kind)
        else:
            passed_over[kind] += 1
    return Scan(root, tuple(recordings), tuple(refused), dict(passed_over))


def _kind(path: Path, root: Path, real_root: str) -> Found | str | PipelineError:
    if path.name.startswith("._"):
        return "resource fork"  # macOS writes one beside each file on foreign disks
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            if not Path(os.path.realpath(path)).is_relative_to(real_root):
                return UnsafePath(f"{printable(path)} points outside {printable(root)}")
            status = path.stat()
    except OSError as error:
        return from_os_error(error, path)
    if stat.S_ISREG(status.st_mode):
        return Found(path, Signature.of(status))
    return _NAMES.get(stat.S_IFMT(status.st_mode), "special file")


_NAMES = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
