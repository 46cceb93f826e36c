from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from content_pipeline.library.retention import forget_old
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load

OURS = ("01JD0000000000000000000000-3.log", "run-0a1b2c3d-0a1b-4c2d-8e3f-0a1b2c3d4e5f.log")
THEIRS = ("server.log", "run-2024.log", "01JD-1.log", "run-0a1b2c3d-0a1b-4c2d-8e3f-0a1b2c3d4e5f.log.bak")


def test_only_logs_that_we_named_are_removed(tmp_path: Path) -> None:
    settings = load(flags={"state_dir": tmp_path}, env={}).settings
    (tmp_path / "logs").mkdir()
    for name in (*OURS, *THEIRS):
        (tmp_path / "logs" / name).write_text("said")
    removed = forget_old(settings, open_manifest(settings), datetime.now(UTC) + timedelta(days=1))
    assert removed["logs"] == len(OURS)
    assert {log.name for log in (tmp_path / "logs").iterdir()} == set(THEIRS)
