"""Real recordings, which lie beside a checkout and not in it: tests that want them are skipped elsewhere."""

from __future__ import annotations

from pathlib import Path

FOOTAGE = Path(__file__).resolve().parents[3] / "shared" / "footage"
