from __future__ import annotations

from pathlib import Path

import pytest

from content_pipeline_tests.helpers.footage import FOOTAGE
from content_pipeline_tests.helpers.processing import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="session")
def samples_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings made once for the whole session."""
    return tmp_path_factory.mktemp("samples")


@pytest.fixture(scope="session")
def footage() -> Path:
    if not FOOTAGE.is_dir():
        pytest.skip("the real footage is not beside this checkout")
    return FOOTAGE
