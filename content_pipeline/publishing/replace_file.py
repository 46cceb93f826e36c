"""Putting a file where another may stand, and taking one away, without ever losing a file that is a person's.

Between looking at a file and replacing it an editor may save. So the file is taken out first, in one step, and looked
at where nobody else finds it; one that is not ours goes back. On its way a file has a hidden name beside its target,
`.<name>.content-ai-<token>.<kind>`; the token says whose it is:

- `part` is being copied. It is ours and may be thrown away.
- `new` and `old` may hold what was taken out. Whoever finds one that its owner will not come back for looks at what
  it holds: ours is removed, a person's file gets its name back.

People have hidden files too: one whose name is not exactly of this form is never touched. Names of earlier
versions lack the mark; of those only what no person writes by chance counts: a job's id, or this very machine.

A hidden file is judged only by who has renamed it to a token of its own, so of several who find one, one has it; and
an owner that comes back late finds nothing under its name, and stops.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from uuid import uuid4

from content_pipeline.failpoints import failpoint
from content_pipeline.manifest.ids import ULID_PATTERN
from content_pipeline.manifest.model import Lease
from content_pipeline.publishing.names import numbered_file
from content_pipeline.system.atomic_write import fsync
from content_pipeline.system.filesystem import (
    Unsupported,
    clone_or_copy,
    exchange,
    is_open_for_writing,
    move_without_replacing,
)
from content_pipeline.system.hashing import sha256_of
from content_pipeline.system.process_identity import started_at, this_process

PART, NEW, OLD = "part", "new", "old"
FORGOTTEN_S = 86400.0
UNKNOWN = "0"
MARK = "content-ai-"
_HIDDEN = re.compile(
    rf"\.(?P<name>.+)\.(?P<mark>{MARK})?"
    rf"((?P<job_id>{ULID_PATTERN}|[0-9a-f]{{12}})-(?P<claim>\d{{1,9}})-)?"
    r"(?P<place>[0-9a-f]{8}|0)-(?P<pid>\d{1,7})-(?P<started>\d{1,19})"
    r"\.(?P<kind>part|new|old)",
    re.DOTALL | re.ASCII,
)

Ours = Callable[[Path], bool]


@dataclass(frozen=True)
class Token:
    """Who gave a file its hidden name: the process, and the claim of a job, if there is one."""

    place: str
    pid: int
    started: str
    job_id: str | None = None
    claim: int = 0

    def __str__(self) -> str:
        process = f"{self.place}-{self.pid}-{self.started}"
        return process if self.job_id is None else f"{self.job_id}-{self.claim}-{process}"

    @property
    def process(self) -> tuple[str, int, str]:
        return self.place, self.pid, self.started


@dataclass(frozen=True)
class Hidden:
    path: Path
    target: Path
    token: Token
    kind: str


def token_of(lease: Lease | None) -> Token:
    """Job and claim, if there is a job; and this process, in a form that fits a file name."""
    process = this_process()
    place = UNKNOWN if process.place is None else hashlib.sha256(repr(process.place).encode()).hexdigest()[:8]
    mine = Token(place, process.pid, process.started or "0")
    return mine if lease is None else replace(mine, job_id=lease.job_id, claim=lease.claim_number)


def is_abandoned(found: Hidden, is_over: Callable[[str, int], bool | None]) -> bool:
    """Whether its owner will not come back for it, or may do nothing more when it does.

    `is_over` says whether a claim of a job has ended, None of a job that nobody knows. Where neither the manifest
    nor the kernel can tell, its age decides.
    """
    token, here = found.token, token_of(None)
    if token.process == here.process:
        return True  # an earlier try of this very process
    over = None if token.job_id is None else is_over(token.job_id, token.claim)
    if over is not None:
        return over
    if token.place == here.place != UNKNOWN:
        return started_at(token.pid) not in (None, token.started)
    with suppress(FileNotFoundError):
        return time.time() - found.path.lstat().st_ctime > FORGOTTEN_S
    return False


def holds_one_of(path: Path, known: Collection[str]) -> bool:
    """Whether a file is whole, in nobody's hands, and holds one of these contents, by SHA-256."""
    before = path.lstat()
    try:
        if not stat.S_ISREG(before.st_mode) or sha256_of(path) not in known:
            return False
    except PermissionError:
        return False  # we can read what we published
    after = path.lstat()
    unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return unchanged and not is_open_for_writing(path)


def stage(content: Path | bytes, target: Path, token: Token) -> Path:
    """A copy beside its target, on disk; nobody sees it yet."""
    staged = _hidden(target, token, PART)
    staged.unlink(missing_ok=True)
    if isinstance(content, Path):
        clone_or_copy(content, staged)
    else:
        staged.write_bytes(content)
        fsync(staged)
    return staged


def put_in_place(staged: Path, target: Path, token: Token, is_own_output: Ours) -> bool:
    """Whether it is there now. False: a person's file stands there, as it was, and the staged one is gone.

    FileNotFoundError: a successor has cleared what was staged; it publishes now, and nothing was changed.
    """
    new = _hidden(target, token, NEW)
    move_without_replacing(staged, new)
    while True:
        with suppress(FileExistsError):
            move_without_replacing(new, target)
            return True
        try:
            exchange(new, target)
        except FileNotFoundError:
            new.lstat()  # ours is still there, so the target went: try again
        except Unsupported:
            return _replace_in_steps(new, target, token, is_own_output)
        else:
            failpoint("exchanged")
            break
    if is_own_output(new):
        new.unlink()
        return True
    put_back(new, target, is_own_output)
    return False


def _replace_in_steps(new: Path, target: Path, token: Token, is_own_output: Ours) -> bool:
    """The same where two files cannot change names: for a moment there is none."""
    old = _hidden(target, token, OLD)
    with suppress(FileNotFoundError):
        move_without_replacing(target, old)
        failpoint("exchanged")
        if not is_own_output(old):
            put_back(old, target, is_own_output)
            new.unlink()
            return False
    try:
        move_without_replacing(new, target)
    except FileExistsError:  # somebody else's, just now
        new.unlink()
        return False
    except FileNotFoundError:
        if old.exists():
            put_back(old, target, is_own_output)
        raise
    finally:
        if target.exists():
            old.unlink(missing_ok=True)
    return True


def take_away(target: Path, token: Token, is_own_output: Ours, check_lease: Callable[[], None]) -> bool:
    """Remove a file, if it is ours. False: it is a person's, and stays.

    The lease is looked at once the file is out: who is late may hold what a successor has just published.
    """
    old = _hidden(target, token, OLD)
    try:
        move_without_replacing(target, old)
    except FileNotFoundError:
        return True
    failpoint("taken_out")
    if not is_own_output(old):
        put_back(old, target, is_own_output)
        return False
    try:
        check_lease()
    except BaseException:
        put_back(old, target, is_own_output)
        raise
    old.unlink()
    return True


def put_back(held: Path, target: Path, is_own_output: Ours) -> Path:
    """Give a person's file that was taken out its name back; returns where it is.

    If somebody saved another under that name in this moment, that one keeps it, and this one gets a number.
    """
    with suppress(FileExistsError):
        move_without_replacing(held, target)
        return target
    with suppress(FileNotFoundError, Unsupported):
        if is_own_output(target):
            exchange(held, target)
            if is_own_output(held):
                held.unlink()
                return target
    for number in count(2):
        with suppress(FileExistsError):
            move_without_replacing(held, numbered_file(target, number))
            return numbered_file(target, number)
    raise AssertionError("numbers do not end")


def recover(folder: Path, known: Callable[[Path], Collection[str]], may_take: Callable[[Hidden], bool]) -> list[Path]:
    """Clear up what was interrupted in a folder: `known` gives what of ours may be at a path.

    Returns the files of people that got their names back.
    """
    returned = []
    for found in list(hidden_in(folder)):
        if not may_take(found):
            continue
        with suppress(FileNotFoundError):  # another process was faster
            if found.kind == PART:
                found.path.unlink()
                continue
            held = _hidden(found.target, replace(token_of(None), job_id=uuid4().hex[:12]), OLD)
            move_without_replacing(found.path, held)
            ours = partial(holds_one_of, known=known(found.target))
            if ours(held) or holds_one_of(held, _content_of(found.target)):
                held.unlink()
            else:
                returned.append(put_back(held, found.target, ours))
    return returned


def hidden_in(folder: Path) -> Iterator[Hidden]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.startswith("."))
    except FileNotFoundError:
        return
    for name in names:
        match = _HIDDEN.fullmatch(name)
        if match is None:
            continue
        token = Token(match["place"], int(match["pid"]), match["started"], match["job_id"], int(match["claim"] or 0))
        if match["mark"] or token.job_id is not None or token.place == token_of(None).place != UNKNOWN:
            yield Hidden(folder / name, folder / match["name"], token, match["kind"])


def _content_of(path: Path) -> set[str]:
    """What a file that stands there holds: of two equal ones, one is enough."""
    try:
        return {sha256_of(path)}
    except OSError:
        return set()


def _hidden(target: Path, token: Token, kind: str) -> Path:
    return target.with_name(f".{target.name}.{MARK}{token}.{kind}")
