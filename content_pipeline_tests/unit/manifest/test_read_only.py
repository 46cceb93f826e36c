"""Looking at a manifest disturbs nobody, in this process or another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from content_pipeline.manifest.database import Access, Database, open_engine
from content_pipeline.manifest.read_only import connect_read_only

WRITE = "import sys, sqlite3; sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute('BEGIN IMMEDIATE')"


def write_elsewhere(path: Path) -> str:
    """What another process is told that begins to write."""
    return subprocess.run([sys.executable, "-c", WRITE, path], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("access", Access)
def test_opening_a_manifest_again_keeps_the_lock_of_a_transaction(access: Access, tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    engine = open_engine(f"sqlite:///{path}")
    with Database(engine).transaction():
        assert "database is locked" in write_elsewhere(path)
        again = open_engine(f"sqlite:///{path}", access)
        with Database(again).connect() as connection:
            connection.exec_driver_sql("SELECT count(*) FROM videos")
        again.dispose()
        assert "database is locked" in write_elsewhere(path)
    assert write_elsewhere(path) == ""


def test_nothing_can_be_written_by_a_connection_that_only_looks(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    open_engine(f"sqlite:///{path}").dispose()
    connection = connect_read_only(path)
    with pytest.raises(connection.OperationalError, match="readonly"):
        connection.execute("DELETE FROM videos")
    connection.close()
