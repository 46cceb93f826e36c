"""Reading a SQLite database without changing anything: neither the file, nor what lies beside it, nor its journal.

An ordinary connection to a database with a write-ahead log makes files beside it, and writes the log into the database
when it is closed. Dagster's records always have such a log; a manifest has one if a person gave it one.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from content_pipeline.system.read_beginning import read_beginning

BUSY_TIMEOUT_S = 60
CONNECT_TRIES = 5
_JOURNAL_BYTE, _WAL = 18, 2  # of the header: by which kind of journal the file is to be read


def connect_read_only(path: Path, library: Any = sqlite3) -> Any:
    """A connection by the given SQLite library. Tried again: others may open and close the log meanwhile."""
    for left in reversed(range(CONNECT_TRIES)):
        connection = None
        try:
            connection = _connect(path, library)
            connection.execute("PRAGMA schema_version").fetchone()  # the first look at the file
            return connection
        except library.OperationalError:
            if connection is not None:
                connection.close()
            if not left:
                raise
            time.sleep(0.02)
    raise AssertionError("the last try returns or raises")


def _connect(path: Path, library: Any) -> Any:
    log, index = (path.with_name(path.name + ending) for ending in ("-wal", "-shm"))
    if not _has_log(path):
        # Not `mode=ro`: it refuses a database whose last writer was killed, until somebody else has rolled it back.
        connection = _open(path, "mode=rw", library)
        connection.execute("PRAGMA query_only=ON")
        return connection
    if log.exists() and index.exists():  # as of a database in use
        return _open(path, "mode=ro&readonly_shm=1", library)
    if log.exists() and log.stat().st_size:  # nobody has it open, or there would be an index
        return _copy_with_log(path, log, library)
    return _open(path, "mode=ro&immutable=1", library)


def _has_log(path: Path) -> bool:
    header = read_beginning(path, _JOURNAL_BYTE + 1)
    return len(header) > _JOURNAL_BYTE and header[_JOURNAL_BYTE] == _WAL


def _open(path: Path, how: str, library: Any) -> Any:
    uri = f"file:{quote(str(path.absolute()).encode(errors='surrogateescape'))}?{how}"
    return library.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _copy_with_log(path: Path, log: Path, library: Any) -> Any:
    """A copy in memory. The index of the log is made where the files are, so they are copied first."""
    into = library.connect(":memory:", isolation_level=None, check_same_thread=False)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name("copy.db-wal"))
        with closing(library.connect(copy)) as original:
            original.backup(into)
    return into
