"""Putting what was made where people look: whole, once, and only by whoever holds the job.

A file is ours while it holds what we recorded for its path; where nothing at all is recorded of the video, for the
manifest may have been lost, also if it holds what we are about to publish. Only such a file is ever replaced or
removed. Any other, whoever put it there, stays under its name, and ours gets another. A person's file that holds what
we are about to publish serves as it is, and stays theirs.

Nothing that can block happens inside a transaction: a hung folder stops this video and nobody else. Who publishes is
still decided by the lease, by the order of steps: (1) copy beside the targets, under names that carry job and claim;
(2) announce in the manifest, if the lease holds, what is coming; (3) rename; (4) record, if the lease holds, how
things were left. A worker that is stopped and wakes up late, while a successor has the job:

- before (2): the announcement is refused.
- between (2) and the rename: what it copied was there before the successor claimed the job, and a successor clears
  the hidden names of earlier claims before it looks at any target. The rename finds nothing, and it stops.
- in the rename, while the successor clears: then its file is at the target before the successor looks there, and
  announced; the successor takes it for ours, and replaces it.
- between exchanging two files and looking at what came out: the successor finds that under its hidden name and
  decides about it: ours is removed, a person's goes back. The late one finds nothing, and stops.
- before removing a file, which may be the successor's by now: it takes it out, looks at the lease, puts it back.
- before (4): the record is refused, and the successor's counts.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path

from content_pipeline.artifacts import Artifact, ArtifactStore
from content_pipeline.errors import FileInUse, from_own_folder, printable
from content_pipeline.failpoints import failpoint
from content_pipeline.manifest.publications import Publication, Publications, place_of
from content_pipeline.publishing.names import Name, base_of, numbered_file
from content_pipeline.publishing.replace_file import (
    holds_one_of,
    is_abandoned,
    put_in_place,
    recover,
    stage,
    take_away,
    token_of,
)
from content_pipeline.publishing.sidecar import sidecar
from content_pipeline.system.atomic_write import fsync
from content_pipeline.system.filesystem import is_open_for_writing
from content_pipeline.system.hashing import digest_of, sha256_of

MONTAGE, SIDECAR = "montage.mp4", "montage.json"
ROUNDS = 5  # so often may a person save a file in the very moment it is replaced


@dataclass(frozen=True)
class Piece:
    """One file to publish: its name inside the artifact, the ending it is published with, and what it holds."""

    file: str
    ending: str
    content: Path | bytes
    sha256: str


@dataclass(frozen=True)
class Published:
    """The files and their SHA-256; which were written just now; and what to tell of those kept or removed."""

    files: Mapping[Path, str]
    written: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    publications: tuple[Publication, ...] = ()


def pieces_of(owner: str, endings: Mapping[str, str], *made: Artifact) -> list[Piece]:
    """Each file named in `endings` that one of the artifacts has."""
    sources = {file: artifact for artifact in made for file in artifact.hashes}
    paths = {file: sources[file].path(file) for file in endings if file in sources}
    hashes = {file: sha256_of(path) for file, path in paths.items()}
    pieces = {file: Piece(file, endings[file], path, hashes[file]) for file, path in paths.items()}
    if SIDECAR in pieces:
        document = sources[SIDECAR].read_json(SIDECAR)
        data = sidecar(document, owner, hashes[MONTAGE], paths[MONTAGE].stat().st_size)
        pieces[SIDECAR] = replace(pieces[SIDECAR], content=data, sha256=hashlib.sha256(data).hexdigest())
    return list(pieces.values())


@dataclass(frozen=True)
class OutputFolder:
    """Where files are published; `publications` records them under the lease of the job."""

    folder: Path
    publications: Publications
    artifacts: ArtifactStore


def publish(outputs: OutputFolder, owner: str, name: Name, pieces: Sequence[Piece], why_gone: str) -> Published:
    """Put the pieces in the output folder, and take away what was published there before and no longer holds."""
    folder = outputs.folder
    try:
        if pieces:
            folder.mkdir(parents=True, exist_ok=True)
        # Copies of a recording are several jobs, and publish the same files.
        with outputs.artifacts.only_one("publication", digest_of([os.fsencode(folder).hex(), owner])):
            return _Publisher(outputs.publications, owner, folder, name, tuple(pieces), why_gone).publish()
    except FileNotFoundError as error:
        outputs.publications.check_lease()  # a successor cleared what was staged here
        raise from_own_folder(error, folder) from error
    except OSError as error:
        raise from_own_folder(error, folder) from error


def holds_publication(path: Path, row: Publication) -> bool:
    """Whether a file is what was published there. It is read only if its size is right and its time is not."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or (row.is_settled and status.st_size != row.size_bytes):
            return False
        return status.st_mtime_ns == row.mtime_ns or sha256_of(path) in (row.sha256, row.replaces)
    except OSError:
        return False


def recover_outputs(records: Publications, folders: Iterable[Path]) -> list[Path]:
    """Clear up what was interrupted; returns the files of people that got their names back."""
    returned: list[Path] = []
    for folder in sorted({folder.absolute() for folder in folders} | records.unsettled_folders()):
        try:
            returned += _recover(records, folder)
        except OSError as error:  # whoever publishes there says what is wrong
            logging.getLogger(__name__).warning("%s could not be cleared up: %s", printable(folder), error)
    return returned


def _recover(records: Publications, folder: Path, held: Collection[str] = ()) -> list[Path]:
    def known(path: Path) -> set[str]:
        row = records.at([path]).get(path)
        return {*held, *(() if row is None else row.known)}

    return recover(folder, known, partial(is_abandoned, is_over=records.is_over))


@dataclass(frozen=True)
class _Looked:
    """What stands at a path: nothing; a file of ours, with its hash; or a person's, which may hold what we publish."""

    ours: bool = False
    theirs: bool = False
    serves: bool = False
    sha256: str | None = None
    status: os.stat_result | None = None

    @property
    def is_linked(self) -> bool:
        """Into the cache, as files were published once: to be replaced by a copy of its own."""
        return self.status is not None and self.status.st_nlink > 1

    @property
    def is_usable(self) -> bool:
        return self.serves or not self.theirs


@dataclass(frozen=True)
class _Target:
    piece: Piece
    path: Path
    looked: _Looked
    blocked_by: Path | None  # a file that is not ours and has the better name

    @property
    def is_current(self) -> bool:
        is_published = self.looked.ours and self.looked.sha256 == self.piece.sha256 and not self.looked.is_linked
        return is_published or self.looked.serves


@dataclass(frozen=True)
class _Publisher:
    records: Publications
    owner: str
    folder: Path
    name: Name
    pieces: tuple[Piece, ...]
    why_gone: str

    def publish(self) -> Published:
        _recover(self.records, self.folder, self._held)
        written: list[Path] = []
        for _ in range(ROUNDS):
            here, respelled = self._here()
            targets = self._targets(here)
            left = self._place(targets, _without(here, targets), written)
            if left is None:
                continue  # somebody saved a file in this moment: look again
            notes = self._settle(targets, left, here, respelled)
            failpoint("published")
            files = {target.path: target.piece.sha256 for target in targets}
            return Published(files, tuple(written), tuple(notes), tuple(self.records.of(self.owner)))
        raise FileInUse(f"files in {printable(self.folder)} change again and again while they are being replaced")

    @property
    def _held(self) -> frozenset[str]:
        """What we are about to publish: ours under a hidden name, and where the manifest was lost."""
        return frozenset(piece.sha256 for piece in self.pieces)

    @cached_property
    def _may_be_lost(self) -> bool:
        """Whether nothing is recorded of this video. Else what is recorded nowhere was put there by a person."""
        return not self.records.of(self.owner)

    def _here(self) -> tuple[list[Publication], list[Publication]]:
        """What is published in this folder; and rows that call the folder by another name, through a link or `..`."""
        rows = [row for row in self.records.of(self.owner) if not row.kept]
        here = {place_of(row.path): row for row in rows if row.path.parent == self.folder}
        real = os.path.realpath(self.folder)
        respelled = [
            row for row in rows if row.path.parent != self.folder and os.path.realpath(row.path.parent) == real
        ]
        for row in respelled:
            path = self.folder / row.path.name
            here.setdefault(place_of(path), replace(row, path=path))
        return list(here.values()), respelled

    # --- deciding where each piece goes

    def _targets(self, here: Sequence[Publication]) -> list[_Target]:
        if not self.pieces:
            return []
        first, *others = self.pieces
        leader = self._leader(first, here)
        return [leader, *(self._beside(base_of(leader.path), piece, here) for piece in others)]

    def _leader(self, piece: Piece, here: Sequence[Publication]) -> _Target:
        """The montage decides what its files are called; one that is as it should be is not moved."""
        recorded = [row for row in here if row.file == piece.file]
        for row in recorded:
            target = _Target(piece, row.path, self._look(piece, row.path, here), None)
            if target.is_current:
                return target
        blocked_by = None
        for base in self._bases([*recorded, *here], piece.ending):
            path = self.folder / f"{base}{piece.ending}"
            looked = self._look(piece, path, here)
            if looked.is_usable:
                return _Target(piece, path, looked, blocked_by)
            blocked_by = path if blocked_by is None else blocked_by
        raise AssertionError("numbers do not end")

    def _bases(self, recorded: Sequence[Publication], ending: str) -> Iterable[str]:
        plain = self.folder / f"{self.name.plain}{ending}"
        owner = self.records.at([plain]).get(plain)
        is_taken = owner is not None and owner.owner != self.owner
        return self.name.bases(base_of(recorded[0].path) if recorded else None, is_taken)

    def _beside(self, base: str, piece: Piece, here: Sequence[Publication]) -> _Target:
        wanted = self.folder / f"{base}{piece.ending}"
        for number in count(1):
            path = numbered_file(wanted, number)
            looked = self._look(piece, path, here)
            if looked.is_usable:
                return _Target(piece, path, looked, None if number == 1 else wanted)
        raise AssertionError("numbers do not end")

    def _look(self, piece: Piece, path: Path, here: Sequence[Publication]) -> _Looked:
        row = next((row for row in here if place_of(row.path) == place_of(path)), None)
        if row is None:
            row = self.records.at([path]).get(path)
            if row is not None and row.owner != self.owner:
                return _Looked(theirs=True)
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                return _Looked(theirs=True)
            sha256 = sha256_of(path)
        except FileNotFoundError:
            return _Looked()
        except PermissionError:
            return _Looked(theirs=True)  # we can read what we published
        is_persons = row.kept if row is not None else not self._may_be_lost
        known = frozenset({piece.sha256}) if is_persons else self._held | (frozenset() if row is None else row.known)
        is_known = sha256 in known and not is_open_for_writing(path)
        ours = is_known and not is_persons
        return _Looked(ours, not ours, is_known and is_persons, sha256, status)

    # --- doing it

    def _place(
        self, targets: Sequence[_Target], leaving: Sequence[Publication], written: list[Path]
    ) -> list[Publication] | None:
        """How each file was left. None when a person's file stands where none stood a moment ago, untouched."""
        stale = [target for target in targets if not target.is_current]
        left = [_left(self._coming(target), target.looked.status) for target in targets if target.is_current]
        token = token_of(self.records.lease)
        staged = [stage(target.piece.content, target.path, token) for target in stale]
        failpoint("staged")
        try:
            if stale or leaving:
                self.records.announce([self._coming(target) for target in stale], leaving)
                failpoint("announced")
            for part, target in zip(staged, stale, strict=True):
                left.append(_left(self._coming(target), part.stat()))  # of what we put there, not of what follows
                known = {target.piece.sha256} | ({target.looked.sha256} if target.looked.sha256 else set())
                if not put_in_place(part, target.path, token, partial(holds_one_of, known=known)):
                    return None
                written.append(target.path)
            return left
        finally:
            for part in staged:
                part.unlink(missing_ok=True)

    def _coming(self, target: _Target) -> Publication:
        row = Publication(target.path, self.owner, target.piece.file, target.piece.sha256, target.looked.sha256)
        return replace(row, kept=target.looked.serves)

    def _settle(
        self,
        targets: Sequence[_Target],
        left: Sequence[Publication],
        here: Sequence[Publication],
        respelled: Sequence[Publication],
    ) -> list[str]:
        """Take away what no longer holds, and record how everything was left. Returns what to tell of it."""
        token, removed, kept, missing = token_of(self.records.lease), [], [], []
        leaving = _without(here, targets)
        for row in leaving:
            if not os.path.lexists(row.path):
                missing.append(row)
            elif take_away(row.path, token, partial(holds_one_of, known=row.known), self.records.check_lease):
                removed.append(row)
            else:
                kept.append(replace(row, kept=True, replaces=None, mtime_ns=0))
        serving = [row for row in self.records.at([one.path for one in left if one.kept]).values() if row.kept]
        if leaving or respelled or {replace(row, job_id=None) for row in (*here, *serving)} != set(left):
            if self.folder.is_dir():
                fsync(self.folder)
            self.records.settle([*left, *kept], [*removed, *missing, *respelled])
        return [*self._notes_on_kept(targets, kept), *self._notes_on_removed(targets, removed)]

    # --- telling

    def _notes_on_kept(self, targets: Sequence[_Target], kept: Sequence[Publication]) -> list[str]:
        now = {target.piece.file: target.path for target in targets}
        notes = []
        for row in kept:
            instead = f"the new one is {printable(now[row.file])}" if row.file in now else self.why_gone
            notes.append(f"kept {printable(row.path)}: it was changed since it was published; {instead}")
        mentioned = {row.path for row in kept}
        for target in targets:
            if target.blocked_by is not None and target.blocked_by not in mentioned and not target.is_current:
                blocker = printable(target.blocked_by)
                notes.append(f"kept {blocker}: it is not ours; the new one is {printable(target.path)}")
        return notes

    def _notes_on_removed(self, targets: Sequence[_Target], removed: Sequence[Publication]) -> list[str]:
        now = {target.piece.file for target in targets}
        moved = [printable(row.path) for row in removed if row.file in now]
        gone = [printable(row.path) for row in removed if row.file not in now]
        notes = [f"removed {', '.join(gone)}: {self.why_gone}"] if gone else []
        if moved:
            notes.append(f"removed {', '.join(moved)}: published as {printable(base_of(targets[0].path))}.* now")
        return notes


def _without(here: Sequence[Publication], targets: Sequence[_Target]) -> list[Publication]:
    """What was published before and is not published now."""
    coming = {target.path for target in targets}
    return [row for row in here if row.path not in coming]


def _left(row: Publication, status: os.stat_result | None) -> Publication:
    assert status is not None, "only a file that is there was left"
    return replace(row, replaces=None, size_bytes=status.st_size, mtime_ns=status.st_mtime_ns)
