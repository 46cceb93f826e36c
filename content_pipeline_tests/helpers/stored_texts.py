"""Which files below a folder hold one of some texts, as somebody would find them who reads what is stored there.

Dagster's events are compressed, and SQLite may part a long text: a search in the bytes of a file would miss either.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from content_pipeline.dagster_runtime.compressed_events import plain
from content_pipeline.dagster_runtime.storage import sqlite  # type: ignore[attr-defined]
from content_pipeline.manifest.read_only import connect_read_only

SQLITE = b"SQLite format 3\0"


def files_holding(folder: Path, *texts: str) -> list[Path]:
    """Looked at by another process: to close a database here that is open would drop its locks."""
    command = [sys.executable, "-m", __name__, str(folder), *texts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


def _found(folder: Path, texts: list[str]) -> Iterator[Path]:
    wanted = [text.encode() for text in texts]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and any(text in content for content in _contents(path) for text in wanted):
            yield path


def _contents(path: Path) -> Iterator[bytes]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:  # drafts and launches come and go
        return
    yield content
    if content.startswith(SQLITE):
        yield from _cells(path)


def _cells(path: Path) -> Iterator[bytes]:
    with closing(connect_read_only(path, sqlite)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield from map(_unpacked, row)


def _unpacked(cell: object) -> bytes:
    if not isinstance(cell, bytes):
        return str(cell).encode()
    try:
        return plain(cell).encode()
    except (ValueError, zlib.error):  # other bytes than an event
        return cell


if __name__ == "__main__":
    for found in _found(Path(sys.argv[1]), sys.argv[2:]):
        print(found)  # noqa: T201 - the answer to `files_holding`
