from __future__ import annotations

from pathlib import Path

import pytest

from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return Manifest(open_engine(f"sqlite:///{tmp_path / 'manifest.db'}"))
