"""Is a file whole? One that is still being copied or recorded is left alone."""

from __future__ import annotations

from pathlib import Path

from content_pipeline.system.filesystem import is_open_for_writing


def is_settled(path: Path, mtime_ns: int, now_ns: int, quiet_s: float) -> bool:
    """Nobody writes it, and it has not changed for a while. A time in the future says nothing, and passes."""
    age_s = (now_ns - mtime_ns) / 1e9
    return not 0 <= age_s < quiet_s and not is_open_for_writing(path)
