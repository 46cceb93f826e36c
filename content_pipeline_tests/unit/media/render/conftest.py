from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings made once per session."""
    return tmp_path_factory.mktemp("samples")
